//! `ExportSnapshot`, with the sum by which a reader checks that an export is whole, and the
//! descriptions of snapshots.

use std::time::{Duration, SystemTime};

use prost::Message;
use prost::bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::answer::count;
use super::deadline;
use super::error::Error;
use crate::manifest::ExportSum;
use crate::proto::encoded::encode;
use crate::proto::v1;
use crate::snapshot::{State, Summary};

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

/// Encodes and sends the parts of an export from a thread for blocking work, on the
/// runtime that this is called on. It fails when no more parts are wanted, and the
/// export ends with this error.
pub fn sender(
    parts: mpsc::Sender<Result<Bytes, Status>>,
    draining: CancellationToken,
    deadline: Option<Instant>,
) -> impl FnMut(v1::ExportSnapshotResponse) -> Result<(), Error> {
    let runtime = Handle::current();
    move |part| {
        let part = encode(part);
        let patience = deadline::after(MAX_UNREAD);
        let latest = deadline.map_or(patience, |at| at.min(patience));
        runtime.block_on(async {
            tokio::select! {
                // A client that is gone does not read the error either.
                sent = parts.send(Ok(part)) => sent.map_err(|_| Error::Internal),
                () = draining.cancelled() => Err(Error::Draining),
                () = sleep_until(latest) => Err(Error::Deadline),
            }
        })
    }
}

/// Hands the parts of an export to `send`; the last part sums up all others.
///
/// # Errors
/// The first error of `send`, which ends the export.
pub fn parts(
    name: &str,
    epoch: &str,
    state: &State,
    mut send: impl FnMut(v1::ExportSnapshotResponse) -> Result<(), Error>,
) -> Result<(), Error> {
    let part = |changes, default_constraints: Option<_>| v1::ExportSnapshotResponse {
        update: Some(v1::UpdateSnapshotRequest {
            snapshot: name.to_owned(),
            changes,
            kubernetes_version: match default_constraints.is_some() {
                true => state.defaults().version_text(),
                false => String::new(),
            },
            default_constraints,
            ..Default::default()
        }),
        revision: state.revision,
        epoch: epoch.to_owned(),
        summary: None,
    };
    let mut sum = ExportSum::default();
    let mut send_summed = |part: v1::ExportSnapshotResponse| {
        part.update.iter().for_each(|update| sum.add_update(update));
        send(part)
    };
    let mut defaults = Some(state.defaults().to_wire());
    let mut changes = Vec::new();
    let mut bytes = 0;
    for change in state.changes() {
        bytes = change.encoded_len().saturating_add(bytes);
        changes.push(change);
        if bytes >= PART_BYTES || changes.len() >= PART_CHANGES {
            bytes = 0;
            send_summed(part(std::mem::take(&mut changes), defaults.take()))?;
        }
    }
    // An empty snapshot has default constraints, too.
    if defaults.is_some() || !changes.is_empty() {
        send_summed(part(changes, defaults.take()))?;
    }
    send(v1::ExportSnapshotResponse {
        summary: Some(sum.finish()),
        ..part(Vec::new(), None)
    })
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
