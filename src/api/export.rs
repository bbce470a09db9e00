//! What a snapshot holds: `ExportSnapshot`, with the number of objects by which a reader checks that an
//! export is whole, the descriptions of snapshots, `ListNodes` with the names that the bits of bitmaps
//! stand for, and `VerifySnapshot`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;

use super::error::Error;
use super::request::{self, PageTokens};
use crate::matching::{Path, Violations};
use crate::proto::encoded::encode;
use crate::proto::{count, v1};
use crate::snapshot::reads::Summary;
use crate::snapshot::{Limits, Snapshot, State, Stopped};
use crate::verify::verify;

/// The approximate bytes of a part of an export: well below the 4 MiB that clients accept by
/// default.
const PART_BYTES: usize = 256 << 10;

/// The most changes in a part.
const PART_CHANGES: usize = 500;

/// The most parts of an export that wait for its client.
pub const MAX_WAITING_PARTS: usize = 1;

/// The time that a client may leave a part unread before its export is given up. An export keeps a
/// copy of the whole snapshot.
const MAX_UNREAD: Duration = Duration::from_secs(60);

/// Sends the parts of an export of a state; the last part has the number of objects.
///
/// # Errors
/// No more parts are wanted.
pub async fn run(
    snapshot: Arc<Snapshot>,
    state: Arc<State>,
    parts: mpsc::Sender<Result<Bytes, Status>>,
) -> Result<(), Error> {
    let mut object_count = 0;
    // An empty snapshot has default constraints, too.
    let mut defaults = Some(state.defaults().to_wire());
    let mut objects = state.changes();
    loop {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while bytes < PART_BYTES && changes.len() < PART_CHANGES {
            let Some(change) = objects.next() else { break };
            bytes = change.encoded_len().saturating_add(bytes);
            changes.push(change);
        }
        let is_over = defaults.is_none() && changes.is_empty();
        let update = v1::UpdateSnapshotRequest {
            snapshot: snapshot.name().to_owned(),
            changes,
            kubernetes_version: match defaults.is_some() {
                true => state.defaults().version_text(),
                false => String::new(),
            },
            default_constraints: defaults.take(),
            ..Default::default()
        };
        object_count = count(update.changes.len()).saturating_add(object_count);
        let part = v1::ExportSnapshotResponse {
            update: Some(update),
            revision: state.revision,
            epoch: snapshot.epoch().to_owned(),
            summary: is_over.then_some(v1::ExportSummary { object_count }),
        };
        let sent = timeout(MAX_UNREAD, parts.send(Ok(encode(part)))).await;
        // A client that is gone does not read the error either.
        sent.map_err(|_| Error::Deadline)?
            .map_err(|_| Error::Internal)?;
        if is_over {
            return Ok(());
        }
    }
}

/// A snapshot's description for the wire.
pub fn summary(summary: &Summary) -> v1::Snapshot {
    v1::Snapshot {
        name: summary.name.clone(),
        epoch: summary.epoch.clone(),
        revision: summary.revision,
        synced: summary.synced,
        node_count: count(summary.sizes.nodes),
        pod_count: count(summary.sizes.pods),
        reservation_count: count(summary.reservations),
        default_constraints: Some(summary.defaults.to_wire()),
        create_time: Some(timestamp(summary.created)),
        update_time: Some(timestamp(summary.updated)),
        age: summary.age.map(Into::into),
        stale: summary.stale,
        label_set_count: count(summary.sizes.label_sets),
        kubernetes_version: summary.defaults.version_text(),
        resource_versions: summary.resource_versions.to_wire(),
        cluster: summary.resource_versions.cluster().to_owned(),
    }
}

/// A time for the wire.
pub fn timestamp(time: SystemTime) -> pbjson_types::Timestamp {
    // Times before 1970 are shown as 1970.
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    pbjson_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

/// The most bytes of names on a page: less than the 4 MiB that clients accept by default.
const NAMES_PAGE_BYTES: usize = 3 << 20;

/// A valid `ListNodes` request.
#[derive(Debug)]
pub struct ValidNodeList {
    /// The last name of the previous page.
    after: String,
    most: usize,
    tokens: PageTokens,
}

impl ValidNodeList {
    /// Checks a request.
    pub fn check(wire: v1::ListNodesRequest, _: &Limits, faults: &mut Violations) -> Option<Self> {
        request::check_not_negative(wire.page_size.into(), Path::root("pageSize"), faults);
        let list = v1::ListNodesRequest {
            snapshot: wire.snapshot.clone(),
            ..Default::default()
        };
        let tokens = PageTokens::new("ListNodes", &list);
        let after = tokens.last(&wire.page_token, faults);
        let after = after.unwrap_or_default().to_owned();
        let most = match usize::try_from(wire.page_size) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(size) => size,
        };
        Some(Self {
            after,
            most,
            tokens,
        })
    }

    /// A page of the nodes of a snapshot.
    pub fn answer(&self, snapshot: &Snapshot) -> v1::ListNodesResponse {
        let page = snapshot
            .state()
            .nodes_after(&self.after, self.most, NAMES_PAGE_BYTES);
        let last = page.names.last().filter(|_| page.goes_on);
        v1::ListNodesResponse {
            revision: page.revision,
            epoch: snapshot.epoch().to_owned(),
            node_order_revision: page.ordered_at,
            next_page_token: last.map_or(String::new(), |name| self.tokens.token(name)),
            node_count: count(page.node_count),
            names: page.names,
        }
    }
}

/// Verifies a state of a snapshot and logs the differences.
///
/// # Errors
/// Those of [`verify`].
pub fn verified(
    snapshot: &Snapshot,
    state: &State,
    is_given_up: &dyn Fn() -> bool,
) -> Result<v1::VerifySnapshotResponse, Stopped> {
    let report = verify(state, is_given_up)?;
    for mismatch in &report.mismatches {
        tracing::error!(
            snapshot = snapshot.name(),
            revision = report.revision,
            namespace = mismatch.namespace,
            subject = mismatch.subject,
            aspect = mismatch.aspect,
            kept = mismatch.kept,
            recounted = mismatch.recounted,
            "what is kept has drifted from a recount"
        );
    }
    Ok(v1::VerifySnapshotResponse {
        epoch: snapshot.epoch().to_owned(),
        ..report
    })
}
