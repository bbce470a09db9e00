//! `ExportSnapshot`, with the sum by which a reader checks that an export is whole, and the
//! descriptions of snapshots.

use std::time::{Duration, SystemTime};

use prost::Message;
use prost::bytes::Bytes;
use ring::digest::{Context, SHA256};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::answer::count;
use super::deadline;
use super::error::Error;
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
        memory_bytes: count(summary.memory.total()),
        create_time: Some(timestamp(summary.created)),
        update_time: Some(timestamp(summary.updated)),
        age: summary.age.map(Into::into),
        stale: summary.stale,
        label_set_count: count(summary.sizes.label_sets),
        kubernetes_version: summary.defaults.version_text(),
        resource_versions: summary.resource_versions.to_wire(),
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

/// Counts the objects of an export and sums them up as
/// [`v1::ExportSummary`] says.
#[derive(Clone)]
pub struct ExportSum {
    objects: i64,
    sum: Context,
}

impl Default for ExportSum {
    fn default() -> Self {
        Self {
            objects: 0,
            sum: Context::new(&SHA256),
        }
    }
}

impl ExportSum {
    /// Adds the default constraints of an export. They come first.
    pub fn add_defaults(&mut self, defaults: &v1::DefaultConstraints) {
        self.add_line(defaults);
    }

    /// Adds the next object.
    pub fn add(&mut self, change: &v1::Change) {
        self.objects = self.objects.saturating_add(1);
        self.add_line(change);
    }

    /// Adds the next part of an export.
    pub fn add_update(&mut self, update: &v1::UpdateSnapshotRequest) {
        if let Some(defaults) = &update.default_constraints {
            self.add_defaults(defaults);
        }
        update.changes.iter().for_each(|change| self.add(change));
    }

    /// The summary of all that was added.
    pub fn finish(self) -> v1::ExportSummary {
        v1::ExportSummary {
            object_count: self.objects,
            sha256: self.sum.finish().as_ref().to_vec().into(),
        }
    }

    fn add_line(&mut self, message: &impl Serialize) {
        // Converts to a value first, so that the fields of each object are sorted.
        let value = serde_json::to_value(message).expect("messages have a JSON form");
        let mut line = value.to_string();
        line.push('\n');
        self.sum.update(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Clients in other languages have to get the same sum.
    #[test]
    fn sums_are_of_json_with_sorted_keys() {
        let defaults: v1::DefaultConstraints = serde_json::from_value(json!({})).expect("valid");
        let pod = json!({"pod": {
            "spec": {"tolerations": [{"tolerationSeconds": "300", "key": "k"}], "nodeName": "a"},
            "metadata": {"uid": "\u{e9}\n\"", "name": "p", "labels": {"z": "", "a/b": "1"}},
        }});
        let mut sum = ExportSum::default();
        sum.add_defaults(&defaults);
        sum.add(&serde_json::from_value(pod).expect("a pod"));
        let line = concat!(
            r#"{"pod":{"metadata":{"labels":{"a/b":"1","z":""},"name":"p","uid":"é\n\""},"#,
            r#""spec":{"nodeName":"a","tolerations":[{"key":"k","tolerationSeconds":"300"}]}}}"#,
        );
        let bytes = format!("{{}}\n{line}\n");
        let wanted = ring::digest::digest(&SHA256, bytes.as_bytes());
        let summary = sum.finish();
        assert_eq!(
            (summary.object_count, &summary.sha256[..]),
            (1, wanted.as_ref())
        );
    }
}
