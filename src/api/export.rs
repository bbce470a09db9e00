//! `ExportSnapshot`, with the number of objects by which a reader checks that an export is whole, and
//! the descriptions of snapshots.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::answer::count;
use super::deadline;
use super::error::Error;
use super::slots::WorkPlace;
use crate::proto::encoded::encode;
use crate::proto::v1;
use crate::snapshot::{Snapshot, State, Summary};

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

/// Sends the parts of an export to its client.
pub struct Sender {
    pub parts: mpsc::Sender<Result<Bytes, Status>>,
    pub draining: CancellationToken,
    pub deadline: Option<Instant>,
    /// The place of the export, which it has until it ends.
    pub _place: WorkPlace,
}

impl Sender {
    /// Sends a part.
    ///
    /// # Errors
    /// No more parts are wanted.
    async fn send(&self, part: v1::ExportSnapshotResponse) -> Result<(), Error> {
        let patience = deadline::after(MAX_UNREAD);
        let latest = self.deadline.map_or(patience, |at| at.min(patience));
        tokio::select! {
            // A client that is gone does not read the error either.
            sent = self.parts.send(Ok(encode(part))) => sent.map_err(|_| Error::Internal),
            () = self.draining.cancelled() => Err(Error::Draining),
            () = sleep_until(latest) => Err(Error::Deadline),
        }
    }
}

/// Sends the parts of an export of a state; the last part has the number of objects.
///
/// # Errors
/// No more parts are wanted.
pub async fn run(snapshot: Arc<Snapshot>, state: Arc<State>, sender: Sender) -> Result<(), Error> {
    let mut sent = 0;
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
        sent = count(update.changes.len()).saturating_add(sent);
        let part = v1::ExportSnapshotResponse {
            update: Some(update),
            revision: state.revision,
            epoch: snapshot.epoch().to_owned(),
            summary: is_over.then_some(v1::ExportSummary { object_count: sent }),
        };
        sender.send(part).await?;
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
