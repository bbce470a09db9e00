//! `Place`: a request becomes a plan, which is run and answered. The call and the
//! questions of a stream are all placed here. A request with an id may be repeated, and then gets the
//! same answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use ring::digest::{Context, SHA256, digest};
use tonic::Response;

use super::answer::{logged, try_measured};
use super::error::Error;
use super::export::timestamp;
use super::placing::{self, ValidPlacement};
use super::read_your_writes::AskedSnapshot;
use super::request_context::{RequestContext, check_role};
use super::service::Service;
use super::{dialect, request};
use crate::access::{Caller, Role};
use crate::decision_log::Pending;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::encoded::{encode, encode_within};
use crate::proto::v1;
use crate::snapshot::reserving::{Reserved, Reserving};
use crate::snapshot::{DecidedPicks, Limits, Retryable, Snapshot};
use crate::spread::{Holding, PlaceOptions};

impl Service {
    /// Places the replicas of a request.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(super) async fn placed(
        &self,
        request: v1::PlaceRequest,
        by: RequestContext,
    ) -> Result<Response<Bytes>, Error> {
        let caller = by.caller.as_ref();
        // Reserving changes a snapshot.
        let role = match request.reserve {
            Some(_) => Role::Feeder,
            None => Role::Reader,
        };
        check_role(caller, role, &request.snapshot)?;
        let pending = self.begin(|| Some(request.clone()));
        let valid = ValidPlacement::of(request, &by, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, by.deadline).await?;
        // A repeated request gets the answer of the first time.
        if let Some(retry) = &valid.retry
            && let Some(reserving) = snapshot.answered(retry)
        {
            return Ok(reserved_answer(&snapshot, reserving)?.map(encode));
        }
        self.place_valid(valid, snapshot, by, pending).await
    }

    /// Places a request that was not placed before, on a thread aside.
    async fn place_valid(
        &self,
        valid: ValidPlacement,
        snapshot: Arc<Snapshot>,
        by: RequestContext,
        pending: Option<Pending>,
    ) -> Result<Response<Bytes>, Error> {
        let (registry, lists_placements) = (Arc::clone(&self.registry), valid.lists_placements());
        let write = move |mut answer: Response<v1::PlaceResponse>| {
            if !lists_placements {
                // The measured size counts the placements, so they are cleared only now.
                answer.get_mut().placements.clear();
            }
            let answer = logged(pending, answer);
            let encoded = encode_within(answer.get_ref(), registry.limits())?;
            Ok::<_, Error>(answer.map(|_| encoded))
        };
        if !valid.reserves {
            let run = move |stop: &dyn Fn() -> bool| {
                try_measured(&snapshot, || valid.answer(&snapshot, stop)).and_then(write)
            };
            return self.executor.decide(&by, run).await?;
        }
        let run = move |stop: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || valid.answer(&snapshot, stop));
            answer.map(|answer| (answer, valid, snapshot))
        };
        let (answer, valid, snapshot) = self.executor.decide(&by, run).await??;
        // Work that waits for a disk must not take a slot from decisions.
        let (_guard, stop) = by.watched();
        let hold = move || valid.hold(answer, &snapshot, &stop).and_then(write);
        self.executor.change(&by, hold).await?
    }
}

impl ValidPlacement {
    /// Checks the request of a caller.
    ///
    /// # Errors
    /// Every fault of the request, or [`Error::Deadline`].
    fn of(mut wire: v1::PlaceRequest, by: &RequestContext, limits: &Limits) -> Result<Self, Error> {
        let retry = retryable(&wire, by.caller.as_ref());
        let mut faults = Violations::default();
        let asked = AskedSnapshot::of(&wire, limits, &mut faults);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let _: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        let read = std::mem::take(&mut wire.min_resource_versions);
        let asked = asked.and_read(read, &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = std::mem::take(&mut wire.overlay);
        let overlay = request::overlay(overlay, limits, by, &mut faults)?;
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        if view == v1::View::Bitmap {
            faults.add(Path::root("view"), "must not be VIEW_BITMAP");
        }
        let is_list = !wire.workloads.is_empty();
        let workloads = placing::workloads(&mut wire, by, limits, &mut faults);
        by.look()?;
        let options = options(&wire, limits, &mut faults);
        let all_or_nothing = is_all_or_nothing(&wire, &mut faults);
        check_request_id(&wire, limits, &mut faults);
        let reserve = held_by(wire.reserve.as_ref(), limits, &mut faults);
        if reserve.is_some() && !overlay.is_empty() {
            faults.add(Path::root("reserve"), "must not be set with an overlay");
        }
        let reserves = reserve.is_some();
        let (owner, ttl) = reserve.unwrap_or_default();
        let holds = workloads.iter();
        let holds = holds.map(|it| it.question.pod().hold(owner.clone(), ttl));
        let valid = Self {
            asked,
            overlay,
            reserves,
            retry,
            holds: holds.collect(),
            workloads,
            is_list,
            all_or_nothing,
            options,
            named: named_nodes(&wire),
            checks,
            view,
            max_domains,
            limits: limits.clone(),
        };
        Ok(faults.finish(valid)?)
    }

    fn lists_placements(&self) -> bool {
        self.view != v1::View::Domains
    }

    /// Reserves the picks of an [answer](Self::answer). Places again if the snapshot has moved on
    /// since. Waits for other writers, and for a disk.
    ///
    /// # Errors
    /// As for [`Self::answer`], and those of [`Snapshot::reserve`].
    fn hold(
        &self,
        answer: Response<v1::PlaceResponse>,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Response<v1::PlaceResponse>, Error> {
        let again = || {
            let place = || self.answer(snapshot, cancelled);
            Ok::<_, Error>(decided(try_measured(snapshot, place)?))
        };
        let mut ids = Vec::new();
        let tell = |answer: &mut Response<v1::PlaceResponse>, reserved: Reserved| {
            ids.clone_from(&reserved.ids);
            self.tell(answer.get_mut(), reserved)
        };
        let holds = (&*self.holds, self.retry);
        let limits = &self.limits;
        let reserved = snapshot.reserve(holds, limits, decided(answer), again, tell);
        let answer = reserved_answer(snapshot, reserved?)?;
        if cancelled() && self.retry.is_none() {
            // The caller is gone and would not learn of the reservations, so they end.
            // If that fails, their time ends them.
            let _ = snapshot.release(ids);
            return Err(Error::Deadline);
        }
        Ok(answer)
    }

    /// Writes the reservations into an answer. Returns the bytes to keep for a repeated request.
    fn tell(&self, answer: &mut v1::PlaceResponse, reserved: Reserved) -> Vec<u8> {
        answer.revision = reserved.revision;
        answer.reserved_until = Some(timestamp(reserved.until));
        for (pick, id) in answer.placements.iter_mut().zip(reserved.ids) {
            pick.reservation_id = id;
        }
        if !self.lists_placements() {
            answer.placements.clear();
        }
        match self.retry {
            Some(_) => answer.encode_to_vec(),
            None => Vec::new(),
        }
    }
}

/// Returns the picks that an answer wants to reserve.
fn decided(answer: Response<v1::PlaceResponse>) -> DecidedPicks<Response<v1::PlaceResponse>> {
    let picks = answer.get_ref().placements.iter();
    let picks = picks.map(|pick| {
        let workload = usize::try_from(pick.workload).unwrap_or(0);
        (workload, pick.node.as_str().into())
    });
    DecidedPicks {
        revision: answer.get_ref().revision,
        picks: picks.collect(),
        answer,
    }
}

/// The largest distance of a bonus from 0, so that no sum overflows.
const MAX_BONUS: i64 = 1_000_000_000;

/// Reads the owner of a reservation and the time for which it holds picks.
pub fn held_by(
    wire: Option<&v1::Reservation>,
    limits: &Limits,
    faults: &mut Violations,
) -> Option<(String, Duration)> {
    let wire = wire?;
    let path = Path::root("reserve");
    if wire.owner.is_empty() {
        faults.add(path.field("owner"), "is required");
    }
    request::check_length(&wire.owner, path.field("owner"), limits, faults);
    if wire.ttl.is_none() {
        faults.add(path.field("ttl"), "is required, and must be positive");
    }
    let ttl = request::ttl(wire.ttl, path.field("ttl"), limits, faults)?;
    Some((wire.owner.clone(), ttl))
}

/// Checks the options of a request in its dialect.
fn options(request: &v1::PlaceRequest, limits: &Limits, faults: &mut Violations) -> PlaceOptions {
    const FLEET_ONLY: &str = "applies in the Fleet dialect only";
    let is_fleet = dialect::is_fleet(request.dialect);
    let of_the_other = match is_fleet {
        true => [
            (
                "capacities",
                request.capacities.is_empty(),
                "does not apply in the Fleet dialect: a cluster takes one",
            ),
            (
                "workloads",
                request.workloads.is_empty(),
                "applies in the Kubernetes dialect only",
            ),
        ],
        false => [
            ("holders", request.holders.is_empty(), FLEET_ONLY),
            ("sticky", request.sticky.is_empty(), FLEET_ONLY),
        ],
    };
    for (name, is_empty, rule) in of_the_other {
        if !is_empty {
            faults.add(Path::root(name), rule);
        }
    }
    if is_fleet && is_all_or_nothing(request, faults) {
        let rule = "must not be COMPLETENESS_ALL_OR_NOTHING in the Fleet dialect";
        faults.add(Path::root("completeness"), rule);
    }
    // In Fleet 0 replicas are allowed: all holders then give up the placement.
    let replicas = replicas(request, i32::from(!is_fleet), limits, faults);
    let bonuses = bonuses(&request.bonuses, limits, faults);
    let planning: v1::Planning = request::known(request.planning, Path::root("planning"), faults);
    let mut options = PlaceOptions {
        replicas,
        candidates: request.candidates.as_ref().map(|c| c.names.clone()),
        bonuses,
        jointly: planning == v1::Planning::Joint,
        ..PlaceOptions::default()
    };
    if is_fleet {
        options.holders = holders(&request.holders, limits, faults);
        options.sticky = sticky(&request.sticky, limits, faults);
    } else {
        options.capacities = capacities(&request.capacities, limits, faults);
    }
    options
}

/// Returns whether no replica is to be placed if some replicas find no node.
fn is_all_or_nothing(request: &v1::PlaceRequest, faults: &mut Violations) -> bool {
    let path = Path::root("completeness");
    let asked: v1::Completeness = request::known(request.completeness, path, faults);
    asked == v1::Completeness::AllOrNothing
}

/// Returns the number of replicas of all workloads together; 0 for a request without a number.
fn replicas(
    request: &v1::PlaceRequest,
    least: i32,
    limits: &Limits,
    faults: &mut Violations,
) -> usize {
    let path = Path::root("replicas");
    if request.workloads.is_empty() {
        let replicas = replicas_at(request.replicas, least, path, faults);
        faults.at_most(path, limits, Limit::Replicas, replicas);
        return replicas;
    }
    for (name, is_set) in [
        ("pod", request.pod.is_some()),
        ("replicas", request.replicas != 0),
    ] {
        if is_set {
            faults.add(Path::root(name), "must not be set with workloads");
        }
    }
    let list = Path::root("workloads");
    let replicas = request.workloads.iter().enumerate().map(|(index, it)| {
        let path = list.index(index);
        replicas_at(it.replicas, 1, path.field("replicas"), faults)
    });
    let replicas = replicas.fold(0, usize::saturating_add);
    faults.at_most(list, limits, Limit::Replicas, replicas);
    replicas
}

fn replicas_at(wire: i32, least: i32, path: Path<'_>, faults: &mut Violations) -> usize {
    if wire < least {
        let required = if wire == 0 { "is required, and " } else { "" };
        faults.add(path, format!("{required}must be at least {least}"));
    }
    usize::try_from(wire).unwrap_or(0)
}

/// Returns the nodes that a request has facts about.
fn named_nodes(request: &v1::PlaceRequest) -> Vec<String> {
    let bonuses = request.bonuses.iter().map(|bonus| &bonus.node);
    let capacities = request.capacities.iter().map(|capacity| &capacity.node);
    let holders = request.holders.iter().map(|holder| &holder.node);
    let named = bonuses.chain(capacities).chain(holders);
    named.chain(&request.sticky).cloned().collect()
}

/// A list with at most one entry per node, as a map.
fn by_node<W, T>(
    list: &[W],
    field: &str,
    limits: &Limits,
    faults: &mut Violations,
    node: impl Fn(&W) -> &str,
    mut value: impl FnMut(&W, Path<'_>, &mut Violations) -> T,
) -> HashMap<String, T> {
    let path = Path::root(field);
    if !faults.within(path, limits, Limit::Nodes, list.len()) {
        return HashMap::new();
    }
    let mut map = HashMap::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        let path = path.index(i);
        let name = node(entry);
        let value = value(entry, path, faults);
        if name.is_empty() {
            faults.add(path.field("node"), "is required");
        } else if name.len() > limits.max_string_bytes {
            request::check_length(name, path.field("node"), limits, faults);
        } else if map.insert(name.to_owned(), value).is_some() {
            faults.add(path.field("node"), "is in the list more than once");
        }
    }
    map
}

/// The caller's preferences, by node.
fn bonuses(
    list: &[v1::NodeBonus],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, i64> {
    let value = |bonus: &v1::NodeBonus, path: Path<'_>, faults: &mut Violations| {
        if bonus.score.abs_diff(0) > MAX_BONUS.unsigned_abs() {
            let rule = format!("must be from -{MAX_BONUS} to {MAX_BONUS}");
            faults.add(path.field("score"), rule);
        }
        bonus.score
    };
    by_node(list, "bonuses", limits, faults, |b| &b.node, value)
}

/// Returns the number of further pods that fit, by node.
fn capacities(
    list: &[v1::NodeCapacity],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, u32> {
    let value = |capacity: &v1::NodeCapacity, path: Path<'_>, faults: &mut Violations| {
        request::check_not_negative(capacity.replicas.into(), path.field("replicas"), faults);
        u32::try_from(capacity.replicas).unwrap_or(0)
    };
    by_node(list, "capacities", limits, faults, |c| &c.node, value)
}

/// Returns the known facts about holders, by cluster.
fn holders(
    list: &[v1::Holder],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, Holding> {
    let value = |holder: &v1::Holder, path: Path<'_>, faults: &mut Violations| {
        let state: v1::HolderState = request::known(holder.state, path.field("state"), faults);
        Holding {
            bound: state != v1::HolderState::Scheduled,
            spread_score: holder.spread_score,
            bonus: holder.bonus,
        }
    };
    by_node(list, "holders", limits, faults, |h| &h.node, value)
}

/// The clusters that held the placement before.
fn sticky(list: &[String], limits: &Limits, faults: &mut Violations) -> HashSet<String> {
    let names = by_node(list, "sticky", limits, faults, |name| name, |_, _, _| ());
    names.into_keys().collect()
}

/// Checks the id of a request.
fn check_request_id(wire: &v1::PlaceRequest, limits: &Limits, faults: &mut Violations) {
    let path = Path::root("requestId");
    request::check_length(&wire.request_id, path, limits, faults);
    if !wire.request_id.is_empty() && wire.reserve.is_none() {
        faults.add(
            path,
            "applies with reserve only: a plan can be asked for again",
        );
    }
}

/// Returns the identity by which a repeated `Place` request is recognised; `None` without an id.
fn retryable(wire: &v1::PlaceRequest, caller: Option<&Caller>) -> Option<Retryable> {
    let id = &wire.request_id;
    if id.is_empty() {
        return None;
    }
    let caller = caller.map_or(String::new(), |caller| caller.identity().to_string());
    let mut key = Context::new(&SHA256);
    key.update(&(caller.len() as u64).to_le_bytes());
    key.update(caller.as_bytes());
    key.update(id.as_bytes());
    // The snapshot keeps the hash, so its name is left out. A repetition may wait for another
    // revision.
    let question = v1::PlaceRequest {
        snapshot: String::new(),
        min_revision: 0,
        epoch: String::new(),
        min_resource_versions: Default::default(),
        ..wire.clone()
    };
    Some(Retryable {
        key: hash(key.finish().as_ref()),
        question: hash(digest(&SHA256, &question.encode_to_vec()).as_ref()),
    })
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(bytes);
    hash
}

/// The answer after reserving: the new answer, or the first answer with the current ids of its
/// reservations. A server that may have lost updates begins a new epoch, and ids belong to an
/// epoch.
///
/// # Errors
/// The id belongs to another request.
fn reserved_answer(
    snapshot: &Snapshot,
    reserving: Reserving<Response<v1::PlaceResponse>>,
) -> Result<Response<v1::PlaceResponse>, Error> {
    match reserving {
        Reserving::Done(answer) => Ok(answer),
        Reserving::Repeated(bytes) => {
            let kept = v1::PlaceResponse::decode(&*bytes);
            let mut kept = kept.map_err(|_| Error::Internal)?;
            for placement in &mut kept.placements {
                placement.reservation_id = snapshot.current_id(&placement.reservation_id);
            }
            Ok(Response::new(kept))
        }
        Reserving::KeyTaken => {
            let rule = "is the id of another request, which was answered already";
            Err(Error::fault(Path::root("requestId"), rule))
        }
    }
}
