//! The loop around a feed: its steps come in, acknowledgements go out.

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::error::Error;
use super::feed::Feed;
use super::lanes::{LARGE_BATCH, Lanes, until};
use crate::proto::v1;

/// Takes the steps of a feed until the client ends it, a step is refused, or
/// the server drains, or its deadline passes.
pub async fn run_feed(
    mut feed: Feed,
    mut steps: Streaming<v1::StreamSnapshotRequest>,
    answers: mpsc::Sender<Result<v1::StreamSnapshotResponse, Status>>,
    draining: CancellationToken,
    lanes: Lanes,
    deadline: Option<Instant>,
) {
    loop {
        let step = tokio::select! {
            step = until(deadline, steps.next()) => {
                step.unwrap_or_else(|late| Some(Err(late.into())))
            }
            () = draining.cancelled() => Some(Err(Error::Draining.into())),
            () = answers.closed() => None,
        };
        let Some(step) = step else { return };
        let answer = match step {
            Err(status) => Err(status),
            Ok(step) => {
                let is_large = step_size(&step) >= LARGE_BATCH;
                let take = move || (feed.step(step), feed);
                match lanes.change_soon(is_large, deadline, take).await {
                    Ok((answer, same)) => {
                        feed = same;
                        answer.map_err(Status::from)
                    }
                    Err(error) => {
                        // Nobody listening any more is no news to anybody.
                        let _ = answers.send(Err(error.into())).await;
                        return;
                    }
                }
            }
        };
        let goes_on = answer.is_ok();
        if answers.send(answer).await.is_err() || !goes_on {
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
