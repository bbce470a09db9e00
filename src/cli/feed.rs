//! Sends objects into a snapshot, in batches, over one stream.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use prost::Message;

use super::backend::Client;
use super::exit::RefusedCall;
use crate::proto::v1::stream_snapshot_request::Step;
use crate::proto::v1::{
    BeginReplace, Change, CommitReplace, DefaultConstraints, StreamSnapshotRequest,
    UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use crate::snapshot::ResourceVersions;

/// The most changes in a batch. A server's limits allow this number.
pub(crate) const BATCH_CHANGES: usize = 1_000;
/// The most bytes in a batch, well below gRPC's default limit of 4 MiB for a message.
const BATCH_BYTES: usize = 1 << 20;

/// The snapshot that receives the objects, with its settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeedTarget {
    /// Name of the snapshot; empty means "default".
    pub(crate) snapshot: String,
    /// True if the objects replace the whole state at the end.
    pub(crate) replace: bool,
    /// Default constraints to set; `None` leaves them unchanged.
    pub(crate) default_constraints: Option<DefaultConstraints>,
    /// The version of Kubernetes to set; empty leaves it unchanged.
    pub(crate) kubernetes_version: String,
    /// The kinds of which the objects are all that there are.
    pub(crate) listed: ResourceVersions,
}

/// Sends `batches`. Returns the last acknowledgement, with the counts
/// of all batches. With `replace`, all changes become visible at once, otherwise batch by batch.
/// `describe` returns the names of the changes of a refused batch.
pub(crate) async fn send(
    client: &Client,
    batches: impl Iterator<Item = Vec<Change>> + Send + 'static,
    describe: impl Fn(usize) -> Vec<String>,
    target: &FeedTarget,
) -> Result<UpdateSnapshotResponse> {
    let answer = transfer(client, batches, describe, target).await;
    answer.with_context(|| format!("loading snapshot {:?}", target.snapshot))
}

async fn transfer(
    client: &Client,
    batches: impl Iterator<Item = Vec<Change>> + Send + 'static,
    describe: impl Fn(usize) -> Vec<String>,
    target: &FeedTarget,
) -> Result<UpdateSnapshotResponse> {
    let steps_before_batches = usize::from(target.replace);
    // Steps are acknowledged in order, so the first step without an acknowledgement was refused.
    let refused = |status, step: usize| {
        let batch = step.checked_sub(steps_before_batches);
        RefusedCall::or_unreachable(status, batch.map_or_else(Vec::new, &describe))
    };

    let sent = Arc::new(AtomicUsize::new(0));
    let steps = requests(batches, target, Arc::clone(&sent));
    let answer = client
        .rpc()
        .stream_snapshot(tokio_stream::iter(steps))
        .await;
    let mut answers = answer.map_err(|status| refused(status, 0))?.into_inner();
    let mut total = UpdateSnapshotResponse::default();
    let mut done = 0;
    while let Some(answer) = answers
        .message()
        .await
        .map_err(|status| refused(status, done))?
    {
        let update = answer.update.unwrap_or_default();
        // In a replace, the last acknowledgement is that of the commit, which counts all changes.
        total = match target.replace {
            true => update,
            false => UpdateSnapshotResponse {
                changed_count: total.changed_count + update.changed_count,
                unchanged_count: total.unchanged_count + update.unchanged_count,
                skipped_count: total.skipped_count + update.skipped_count,
                ..update
            },
        };
        done += 1;
    }
    let sent = sent.load(Ordering::Relaxed);
    anyhow::ensure!(
        done == sent,
        "the server ended the stream after {done} of {sent} steps"
    );
    Ok(total)
}

/// Returns the ranges of changes that become batches. There is at least one range, perhaps empty,
/// because the first batch carries the default constraints.
pub(crate) fn ranges(changes: &[Change]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut size_bytes = 0;
    for (index, change) in changes.iter().enumerate() {
        let change_bytes = change.encoded_len();
        let full = index - start == BATCH_CHANGES || size_bytes + change_bytes > BATCH_BYTES;
        if full && index > start {
            ranges.push(start..index);
            start = index;
            size_bytes = 0;
        }
        size_bytes += change_bytes;
    }
    ranges.push(start..changes.len());
    ranges
}

/// The requests of a feed. `sent` counts those that the stream has taken.
fn requests<B>(
    batches: B,
    target: &FeedTarget,
    sent: Arc<AtomicUsize>,
) -> impl Iterator<Item = StreamSnapshotRequest> + Send + use<B>
where
    B: Iterator<Item = Vec<Change>> + Send,
{
    let begin = target.replace.then(|| {
        Step::BeginReplace(BeginReplace {
            snapshot: target.snapshot.clone(),
        })
    });
    let commit = target.replace.then(|| {
        Step::CommitReplace(CommitReplace {
            snapshot: target.snapshot.clone(),
            expected_revision: None,
        })
    });
    let target = target.clone();
    let updates = batches.enumerate().map(move |(number, changes)| {
        Step::Update(UpdateSnapshotRequest {
            snapshot: target.snapshot.clone(),
            changes,
            default_constraints: target.default_constraints.clone().filter(|_| number == 0),
            // The version applies to the changes of this batch and later ones.
            kubernetes_version: target.kubernetes_version.clone(),
            resource_versions: target.listed.to_wire(),
            ..Default::default()
        })
    });
    let steps = begin.into_iter().chain(updates).chain(commit);
    steps.map(move |step| {
        sent.fetch_add(1, Ordering::Relaxed);
        StreamSnapshotRequest { step: Some(step) }
    })
}
