//! `ReservePods`, `ConfirmReservations`, `RenewReservations`, `ReleaseReservations`
//! and `ListReservations`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use tonic::{Request, Response, Status};

use super::answer::unknown_nodes;
use super::error::Error;
use super::export::timestamp;
use super::place::held_by;
use super::request::{self, PageTokens};
use super::request_context::AboutSnapshot;
use super::service::Service;
use crate::access::Role;
use crate::limits::Limit;
use crate::matching::{Path, Violations, names};
use crate::proto::encoded::encode;
use crate::proto::v1;
use crate::snapshot::reserving::{Assignment, Listed};
use crate::snapshot::{Claim, Limits, Snapshot};
use crate::spread::Question;

impl Service {
    /// Answers a call that changes the reservations of a snapshot.
    pub(super) async fn change_reservations<M, A>(
        &self,
        request: Request<Bytes>,
        change: fn(M, &Snapshot, &Limits) -> Result<A, Error>,
    ) -> Result<Response<Bytes>, Status>
    where
        M: AboutSnapshot + 'static,
        A: Message + 'static,
    {
        let (call, snapshot) = self.open_on(request, Role::Feeder).await?;
        let registry = Arc::clone(&self.registry);
        let change = move || change(call.request, &snapshot, registry.limits()).map(encode);
        let changed = self.executor.change(&call.by, change).await??;
        Ok(Response::new(changed))
    }
}

/// Reserves pods on the nodes that the caller chose.
///
/// # Errors
/// Every fault of the request, and [`Error::Snapshot`].
pub fn reserve_pods(
    wire: v1::ReservePodsRequest,
    snapshot: &Snapshot,
    limits: &Limits,
) -> Result<v1::ReservePodsResponse, Error> {
    let mut faults = Violations::default();
    if wire.reserve.is_none() {
        faults.add(Path::root("reserve"), "is required");
    }
    let reserve = held_by(wire.reserve.as_ref(), limits, &mut faults);
    let path = Path::root("pods");
    let mut assignments = Vec::new();
    if faults.within(path, limits, Limit::Replicas, wire.pods.len()) {
        let mut seen = HashSet::with_capacity(wire.pods.len());
        for (i, pod) in wire.pods.iter().enumerate() {
            let assigned = assignment(pod, reserve.as_ref(), path.index(i), limits, &mut faults);
            let Some(assigned) = assigned else { continue };
            if !seen.insert((
                assigned.hold.namespace().to_owned(),
                assigned.claim.name.clone(),
            )) {
                faults.add(path.index(i).field("pod"), "is in the list more than once");
            }
            assignments.push(assigned);
        }
    }
    faults.finish(())?;
    let assigned = snapshot.assign(&assignments, limits)?;
    let named = wire.pods.iter().map(|pod| pod.node.as_str());
    let unknown_nodes = unknown_nodes(named, snapshot.state().nodes());
    Ok(v1::ReservePodsResponse {
        revision: assigned.revision,
        epoch: snapshot.epoch().to_owned(),
        reservation_ids: assigned.ids,
        reserved_until: assigned.until.map(timestamp),
        unknown_nodes,
    })
}

/// A pod with its node, if they can be read.
fn assignment(
    wire: &v1::AssignedPod,
    reserve: Option<&(String, Duration)>,
    path: Path<'_>,
    limits: &Limits,
    faults: &mut Violations,
) -> Option<Assignment> {
    names::check_node_name(&wire.node, limits.node_names, path.field("node"), faults);
    let pod_path = path.field("pod");
    let metadata = wire.pod.as_ref().and_then(|pod| pod.metadata.as_ref());
    let claim = Claim {
        name: metadata.map_or("", |metadata| &metadata.name).into(),
        uid: metadata.map_or("", |metadata| &metadata.uid).into(),
    };
    let metadata_path = pod_path.field("metadata");
    if claim.name.is_empty() {
        faults.add(metadata_path.field("name"), "is required");
    }
    request::check_length(&claim.uid, metadata_path.field("uid"), limits, faults);
    let question = faults.collect(Question::compile(wire.pod.as_ref(), limits, pod_path))?;
    let (owner, ttl) = reserve?;
    Some(Assignment {
        hold: question.hold(owner.clone(), *ttl),
        node: wire.node.as_str().into(),
        claim,
    })
}

/// Records the pods that reservations became.
///
/// # Errors
/// Every fault of the request, and [`Error::Snapshot`].
pub fn confirm(
    wire: v1::ConfirmReservationsRequest,
    snapshot: &Snapshot,
    limits: &Limits,
) -> Result<v1::ConfirmReservationsResponse, Error> {
    let mut faults = Violations::default();
    let path = Path::root("confirmations");
    let ids = wire.confirmations.iter().map(|c| &*c.id);
    check_ids(ids, path, Some("id"), limits, &mut faults);
    for (i, confirmation) in wire.confirmations.iter().enumerate() {
        let path = path.index(i);
        check_pod(
            confirmation.pod.as_ref(),
            path.field("pod"),
            limits,
            &mut faults,
        );
    }
    faults.finish(())?;
    let claim = |confirmation: v1::Confirmation| {
        let pod = confirmation.pod.unwrap_or_default();
        let claim = Claim {
            name: pod.name.into(),
            uid: pod.uid.into(),
        };
        (confirmation.id, claim)
    };
    let ended = snapshot.confirm(wire.confirmations.into_iter().map(claim).collect())?;
    Ok(v1::ConfirmReservationsResponse {
        revision: ended.revision,
        epoch: snapshot.epoch().to_owned(),
        unknown_ids: ended.unknown,
    })
}

/// Holds reservations for longer.
///
/// # Errors
/// Every fault of the request, and [`Error::Snapshot`].
pub fn renew(
    wire: v1::RenewReservationsRequest,
    snapshot: &Snapshot,
    limits: &Limits,
) -> Result<v1::RenewReservationsResponse, Error> {
    let mut faults = Violations::default();
    let ids = wire.ids.iter().map(String::as_str);
    check_ids(ids, Path::root("ids"), None, limits, &mut faults);
    let ttl = request::ttl(wire.ttl, Path::root("ttl"), limits, &mut faults);
    faults.finish(())?;
    let renewed = snapshot.renew(wire.ids, ttl)?;
    Ok(v1::RenewReservationsResponse {
        revision: renewed.revision,
        epoch: snapshot.epoch().to_owned(),
        unknown_ids: renewed.unknown,
        reserved_until: renewed.until.map(timestamp),
    })
}

/// Releases reservations.
///
/// # Errors
/// Every fault of the request, and [`Error::Snapshot`].
pub fn release(
    wire: v1::ReleaseReservationsRequest,
    snapshot: &Snapshot,
    limits: &Limits,
) -> Result<v1::ReleaseReservationsResponse, Error> {
    let mut faults = Violations::default();
    let ids = wire.ids.iter().map(String::as_str);
    check_ids(ids, Path::root("ids"), None, limits, &mut faults);
    faults.finish(())?;
    let ended = snapshot.release(wire.ids)?;
    Ok(v1::ReleaseReservationsResponse {
        revision: ended.revision,
        epoch: snapshot.epoch().to_owned(),
        unknown_ids: ended.unknown,
    })
}

/// Lists a page of reservations.
///
/// # Errors
/// Every fault of the request.
pub fn list(
    wire: &v1::ListReservationsRequest,
    snapshot: &Snapshot,
) -> Result<v1::ListReservationsResponse, Error> {
    let mut faults = Violations::default();
    let size = request::page_size(wire.page_size, &mut faults);
    let list = v1::ListReservationsRequest {
        page_size: 0,
        page_token: String::new(),
        ..wire.clone()
    };
    let tokens = PageTokens::new("ListReservations", &list);
    let after = tokens.last(&wire.page_token, &mut faults);
    faults.finish(())?;
    // The tokens that were given have the numbers of reservations.
    let after = after.and_then(|last| last.parse().ok()).unwrap_or(0);
    let mut page = snapshot.reservations(after, &wire.owner, size.saturating_add(1));
    let goes_on = page.len() > size;
    page.truncate(size);
    let last = page.last().filter(|_| goes_on);
    Ok(v1::ListReservationsResponse {
        next_page_token: last.map_or(String::new(), |listed| {
            tokens.token(&listed.serial.to_string())
        }),
        reservations: page.into_iter().map(held_placement).collect(),
    })
}

fn held_placement(listed: Listed) -> v1::HeldPlacement {
    let Listed { id, held, .. } = listed;
    let pod = |claim: Claim| v1::ReservedPod {
        name: claim.name.into(),
        uid: claim.uid.into(),
    };
    let labels = held
        .hold
        .template
        .metadata
        .as_ref()
        .map(|it| it.labels.clone());
    v1::HeldPlacement {
        id,
        owner: held.hold.owner.to_string(),
        namespace: held.hold.namespace().to_owned(),
        node: held.node.into(),
        reserved_until: Some(timestamp(held.expires)),
        pod: held.claim.map(pod),
        labels: labels.unwrap_or_default(),
    }
}

/// Checks a list of ids, each the `field` of an entry.
fn check_ids<'a>(
    ids: impl ExactSizeIterator<Item = &'a str>,
    path: Path<'_>,
    field: Option<&str>,
    limits: &Limits,
    faults: &mut Violations,
) {
    if !faults.within(path, limits, Limit::Replicas, ids.len()) {
        return;
    }
    let mut seen = HashSet::with_capacity(ids.len());
    for (i, id) in ids.enumerate() {
        let entry = path.index(i);
        let path = field.map_or(entry, |field| entry.field(field));
        if id.is_empty() {
            faults.add(path, "is required");
        } else if !seen.insert(id) {
            faults.add(path, "is in the list more than once");
        }
    }
}

fn check_pod(
    pod: Option<&v1::ReservedPod>,
    path: Path<'_>,
    limits: &Limits,
    faults: &mut Violations,
) {
    let Some(pod) = pod.filter(|pod| !(pod.name.is_empty() && pod.uid.is_empty())) else {
        faults.add(path, "must have a name, a uid or both");
        return;
    };
    if !pod.name.is_empty() {
        names::check_name(&pod.name, path.field("name"), faults);
    }
    request::check_length(&pod.uid, path.field("uid"), limits, faults);
}
