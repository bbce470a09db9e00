//! The loop around a feed: its steps come in, acknowledgements go out.

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::error::Error;
use super::executor::{Executor, LARGE_BATCH, until};
use super::feed::{CheckedStep, Feed};
use super::request_context::RequestContext;
use crate::proto::encoded::encode;
use crate::proto::received::{FeedStep, ReceivedStep};
use crate::proto::v1;
use crate::snapshot::Moment;

/// The most steps that are taken together, after they arrived while others were stored.
pub const MAX_GROUP: usize = 16;

/// The most changes that such steps have together, before the last one is added.
const MAX_GROUP_CHANGES: usize = 10_000;

/// Takes the steps of a feed until the client ends it, a step is refused, the
/// server drains, or the deadline passes.
pub async fn run_feed(
    mut feed: Feed,
    is_journaled: bool,
    mut steps: Streaming<Bytes>,
    answers: mpsc::Sender<Result<Bytes, Status>>,
    draining: CancellationToken,
    executor: Executor,
    by: RequestContext,
) {
    loop {
        let step = tokio::select! {
            step = until(by.deadline, steps.next()) => {
                step.unwrap_or_else(|late| Some(Err(late.into())))
            }
            () = draining.cancelled() => Some(Err(Error::Draining.into())),
            () = answers.closed() => None,
        };
        let Some(step) = step else { return };
        let group = gather(step, &mut steps, &feed, is_journaled).await;
        let StepGroup { taken, size, end } = group;
        let is_large = size >= LARGE_BATCH;
        let check = move || (feed.check(taken), feed);
        let checked = executor.unlocked(is_large, &by, check).await;
        let answered = match checked {
            Ok(checked) => take(checked, is_large || is_journaled, &executor, &by).await,
            Err(late) => Err(late),
        };
        let answered = match answered {
            Ok((answered, same)) => {
                feed = same;
                answered
            }
            Err(error) => {
                // If the client is gone, this error is not needed.
                let _ = answers.send(Err(error.into())).await;
                return;
            }
        };
        let answered = answered.into_iter().map(|a| a.map_err(Status::from));
        for answer in answered.chain(end.map(Err)) {
            let goes_on = answer.is_ok();
            if answers.send(answer.map(encode)).await.is_err() || !goes_on {
                return;
            }
        }
    }
}

/// Takes checked steps. Returns their outcome.
async fn take(
    (checked, mut feed): (Vec<CheckedStep>, Feed),
    is_large: bool,
    executor: &Executor,
    by: &RequestContext,
) -> Result<(Vec<Result<v1::StreamSnapshotResponse, Error>>, Feed), Error> {
    let only_stages = feed.only_stages(&checked);
    let take = move || (feed.steps(checked), feed);
    match only_stages {
        true => executor.unlocked(is_large, by, take).await,
        false => executor.change_soon(is_large, by, take).await,
    }
}

/// Returns the first step and, with a journal, the steps that have arrived since. They are stored
/// together.
async fn gather(
    first: Result<Bytes, Status>,
    steps: &mut Streaming<Bytes>,
    feed: &Feed,
    is_journaled: bool,
) -> StepGroup {
    let mut group = StepGroup::default();
    let mut goes_on = group.add(first, feed.now());
    while is_journaled && goes_on && group.has_room() {
        let step = tokio::select! {
            biased;
            step = steps.next() => step,
            () = std::future::ready(()) => None,
        };
        let Some(step) = step else { break };
        goes_on = group.add(step, feed.now());
    }
    group
}

/// Steps that are taken together.
#[derive(Default)]
struct StepGroup {
    /// The steps, each with the time of its arrival.
    taken: Vec<(Moment, ReceivedStep)>,
    size: usize,
    /// The reason why no more steps come, if the stream has ended.
    end: Option<Status>,
}

impl StepGroup {
    /// Adds a step. Returns whether more may be added.
    fn add(&mut self, step: Result<Bytes, Status>, arrived: Moment) -> bool {
        let decode = |step| ReceivedStep::decode(step).map_err(Error::from);
        let step = step.and_then(|step| Ok(decode(step)?));
        match step {
            Ok(step) => {
                self.size = self.size.saturating_add(step_size(&step));
                self.taken.push((arrived, step));
            }
            Err(status) => self.end = Some(status),
        }
        self.end.is_none()
    }

    fn has_room(&self) -> bool {
        self.taken.len() < MAX_GROUP && self.size < MAX_GROUP_CHANGES
    }
}

fn step_size(step: &ReceivedStep) -> usize {
    match &step.step {
        Some(FeedStep::Update(update)) => update.changes.len(),
        // A commit drops the old state, which may be large.
        Some(FeedStep::CommitReplace(_)) => usize::MAX,
        _ => 0,
    }
}
