//! Sending objects into a snapshot, in batches, over one stream.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use indicatif::ProgressBar;
use prost::Message;

use super::backend::Client;
use super::errors::Refused;
use super::manifest::Objects;
use crate::proto::v1::stream_snapshot_request::Step;
use crate::proto::v1::{
    BeginReplace, CommitReplace, DefaultConstraints, StreamSnapshotRequest, UpdateSnapshotRequest,
    UpdateSnapshotResponse,
};

/// Changes in a batch: few enough for a server's limits, and for a progress
/// bar that moves.
const BATCH_CHANGES: usize = 1_000;
/// Bytes in a batch, well below gRPC's default limit of 4 MiB a message.
const BATCH_BYTES: usize = 1 << 20;

/// What to do with the objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// Name of the snapshot; empty means "default".
    pub(crate) snapshot: String,
    /// Whether the objects are the whole state, swapped in at the end.
    pub(crate) replace: bool,
    /// Default constraints to set; none leaves them.
    pub(crate) default_constraints: Option<DefaultConstraints>,
}

/// Sends `objects` and answers the last acknowledgement, with the counts of
/// all batches. With `replace` they become visible at once; without, each
/// batch by itself. `progress` counts changes.
pub(crate) async fn send(
    client: &Client,
    objects: Arc<Objects>,
    target: &Target,
    progress: &ProgressBar,
) -> Result<UpdateSnapshotResponse> {
    let batches = Arc::new(batches(&objects));
    let steps_before_batches = usize::from(target.replace);
    let steps = batches.len() + if target.replace { 2 } else { 0 };
    let batch_of = |step: usize| {
        batches
            .get(step.checked_sub(steps_before_batches)?)
            .cloned()
    };
    // Steps are acknowledged in order: the first one that is not is at fault.
    let refused = |status, step| {
        let batch = batch_of(step).unwrap_or_default();
        Refused::or_unreachable(status, batch.map(|index| objects.describe(index)).collect())
    };

    progress.set_length(objects.changes.len() as u64);
    let requests = tokio_stream::iter(requests(&objects, &batches, target));
    let answer = client.rpc().stream_snapshot(requests).await;
    let mut answers = answer.map_err(|status| refused(status, 0))?.into_inner();
    let mut total = UpdateSnapshotResponse::default();
    let mut done = 0;
    while let Some(answer) = answers
        .message()
        .await
        .map_err(|status| refused(status, done))?
    {
        let mut update = answer.update.unwrap_or_default();
        if !target.replace {
            update.changed_count += total.changed_count;
            update.unchanged_count += total.unchanged_count;
        }
        // Of a replace the last one is the commit's, which counts them all.
        total = update;
        progress.inc(batch_of(done).map_or(0, |batch| batch.len() as u64));
        done += 1;
    }
    anyhow::ensure!(
        done == steps,
        "the server ended the stream after {done} of {steps} steps"
    );
    Ok(total)
}

/// Cuts the changes into batches by number and size. At least one, perhaps
/// empty: the first carries the default constraints.
fn batches(objects: &Objects) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut size_bytes = 0;
    for (index, change) in objects.changes.iter().enumerate() {
        let change_bytes = change.encoded_len();
        let full = index - start == BATCH_CHANGES || size_bytes + change_bytes > BATCH_BYTES;
        if full && index > start {
            batches.push(start..index);
            start = index;
            size_bytes = 0;
        }
        size_bytes += change_bytes;
    }
    batches.push(start..objects.changes.len());
    batches
}

/// The requests of a feed. A batch is copied when its turn comes.
fn requests(
    objects: &Arc<Objects>,
    batches: &Arc<Vec<Range<usize>>>,
    target: &Target,
) -> impl Iterator<Item = StreamSnapshotRequest> + Send + use<> {
    let step = |step| StreamSnapshotRequest { step: Some(step) };
    let begin = target.replace.then(|| {
        step(Step::BeginReplace(BeginReplace {
            snapshot: target.snapshot.clone(),
        }))
    });
    let commit = target.replace.then(|| {
        step(Step::CommitReplace(CommitReplace {
            snapshot: target.snapshot.clone(),
            expected_revision: None,
        }))
    });
    let (objects, batches, target) = (objects.clone(), batches.clone(), target.clone());
    let updates = (0..batches.len()).map(move |number| {
        step(Step::Update(UpdateSnapshotRequest {
            snapshot: target.snapshot.clone(),
            changes: objects.changes[batches[number].clone()].to_vec(),
            default_constraints: target.default_constraints.clone().filter(|_| number == 0),
            ..Default::default()
        }))
    });
    begin.into_iter().chain(updates).chain(commit)
}
