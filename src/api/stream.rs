//! The stream of a feed: steps in, answers out, in order.

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::error::Error;
use super::feed::Feed;
use super::service::{LARGE_BATCH, MAX_WAITING_ANSWERS, run_aside};
use crate::proto::v1;

/// Steps that came while others were stored are taken together until they have
/// so many changes.
const MAX_GROUP_CHANGES: usize = 10_000;

/// Takes the steps of a feed until the client ends it, a step is refused, or
/// the server drains.
pub async fn run(
    mut feed: Feed,
    is_journaled: bool,
    mut steps: Streaming<v1::StreamSnapshotRequest>,
    answers: mpsc::Sender<Result<v1::StreamSnapshotResponse, Status>>,
    draining: CancellationToken,
) {
    loop {
        let step = tokio::select! {
            step = steps.next() => step,
            () = draining.cancelled() => Some(Err(Error::Draining.into())),
            () = answers.closed() => None,
        };
        let Some(step) = step else { return };
        let (mut taken, mut end) = (Vec::new(), None);
        let mut size = 0_usize;
        match step {
            Ok(step) => {
                size = step_size(&step);
                taken.push(step);
            }
            Err(status) => end = Some(status),
        }
        let has_room =
            |taken: &[_], size| taken.len() < MAX_WAITING_ANSWERS && size < MAX_GROUP_CHANGES;
        while is_journaled && end.is_none() && has_room(&taken, size) {
            let step = tokio::select! {
                biased;
                step = steps.next() => step,
                () = std::future::ready(()) => None,
            };
            match step {
                Some(Ok(step)) => {
                    size = size.saturating_add(step_size(&step));
                    taken.push(step);
                }
                Some(Err(status)) => end = Some(status),
                None => break,
            }
        }
        let is_large = is_journaled || size >= LARGE_BATCH;
        let answered = match run_aside(is_large, move || (feed.steps(taken), feed)).await {
            Ok((answered, same)) => {
                feed = same;
                answered
            }
            Err(error) => {
                // Nobody listening any more is no news to anybody.
                let _ = answers.send(Err(error.into())).await;
                return;
            }
        };
        for answer in answered {
            let goes_on = answer.is_ok();
            if answers.send(answer.map_err(Status::from)).await.is_err() || !goes_on {
                return;
            }
        }
        if let Some(status) = end {
            let _ = answers.send(Err(status)).await;
            return;
        }
    }
}

fn step_size(step: &v1::StreamSnapshotRequest) -> usize {
    match &step.step {
        Some(v1::stream_snapshot_request::Step::Update(update)) => update.changes.len(),
        // A commit drops the old state, however large it was.
        Some(v1::stream_snapshot_request::Step::CommitReplace(_)) => usize::MAX,
        _ => 0,
    }
}
