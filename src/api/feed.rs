//! `StreamSnapshot`: batches one after another, and staged replaces. Its steps come in, and
//! acknowledgements go out.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::error::Error;
use super::executor::{Executor, LARGE_BATCH, until};
use super::request_context::RequestContext;
use super::update::{self, ValidUpdate};
use super::{permission, request};
use crate::access::{Caller, Role};
use crate::matching::{Path, Violations};
use crate::proto::encoded::encode;
use crate::proto::v1;
use crate::proto::v1::stream_snapshot_request::Step;
use crate::snapshot::{Fence, Moment, Offer, Registry, Staged};
use crate::tasks;

/// The most replaces that a stream may have begun: each is a state of its own.
const MAX_REPLACES: usize = 4;

/// The most steps that are taken together, after they arrived while others were stored.
pub const MAX_GROUP: usize = 16;

/// The most changes that such steps have together, before the last one is added.
const MAX_GROUP_CHANGES: usize = 10_000;

/// One feed, with the replaces that its stream has begun and not yet committed.
pub struct Feed {
    registry: Arc<Registry>,
    /// The caller that feeds; `None` where callers are not told apart.
    caller: Option<Caller>,
    /// The right to feed, if feeds need one.
    fence: Option<Fence>,
    /// The replaces that are being built, by snapshot.
    staged: HashMap<String, Staged>,
}

impl Drop for Feed {
    /// Dropping a large replace takes long, and the thread on which a stream ends serves
    /// connections.
    fn drop(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        if let (false, Ok(runtime)) = (staged.is_empty(), Handle::try_current()) {
            tasks::spawn_blocking_on(&runtime, move || drop(staged));
        }
    }
}

/// A step that passed its checks, or the reason of its refusal, with the time of its arrival.
type CheckedStep = (Moment, Result<ValidStep, Error>);

/// A step that passed its checks.
enum ValidStep {
    /// A batch, or a replace in one message.
    Update(ValidUpdate),
    /// The begin of a replace.
    Begin(v1::BeginReplace),
    /// The commit of a replace.
    Commit(v1::CommitReplace),
}

/// Batches of one snapshot that follow each other.
#[derive(Default)]
struct Run {
    snapshot: String,
    offers: Vec<Offer>,
}

type Acknowledged = Result<v1::UpdateSnapshotResponse, Error>;

impl Feed {
    /// A feed that has begun nothing.
    pub fn new(registry: Arc<Registry>, caller: Option<Caller>, fence: Option<Fence>) -> Self {
        Self {
            registry,
            caller,
            fence,
            staged: HashMap::new(),
        }
    }

    /// Returns the time by the clock of the registry.
    fn now(&self) -> Moment {
        self.registry.now().steady
    }

    /// Returns whether the steps only add to states that are not published.
    fn only_stages(&self, steps: &[CheckedStep]) -> bool {
        steps.iter().all(|(_, step)| match step {
            Ok(ValidStep::Update(update)) => self.staged.contains_key(&update.snapshot),
            _ => false,
        })
    }

    /// Takes steps in order, until one is refused. Returns the answers up to that one.
    /// Consecutive batches of one snapshot are stored together.
    fn steps(&mut self, steps: Vec<CheckedStep>) -> Vec<Result<v1::StreamSnapshotResponse, Error>> {
        let mut answers: Vec<Acknowledged> = Vec::with_capacity(steps.len());
        let mut run = Run::default();
        for (arrived, step) in steps {
            let offered_to = match &step {
                Ok(ValidStep::Update(update)) if self.is_offer(update) => Some(&update.snapshot),
                _ => None,
            };
            let offers = offered_to.is_some();
            if offered_to != Some(&run.snapshot) {
                self.settle(&mut run, &mut answers);
            }
            if answers.last().is_some_and(Result::is_err) {
                break;
            }
            match step {
                Ok(ValidStep::Update(update)) if offers => {
                    run.snapshot = update.snapshot;
                    run.offers.push(update.offer);
                }
                Ok(ValidStep::Update(update)) => answers.push(self.update(update)),
                Ok(ValidStep::Begin(wire)) => answers.push(self.begin(&wire)),
                Ok(ValidStep::Commit(wire)) => answers.push(self.commit(&wire, arrived)),
                Err(error) => answers.push(Err(error)),
            }
        }
        self.settle(&mut run, &mut answers);
        let response = |update| v1::StreamSnapshotResponse {
            update: Some(update),
        };
        answers.into_iter().map(|a| a.map(response)).collect()
    }

    /// Returns whether a batch changes a part of the live state of its snapshot.
    fn is_offer(&self, update: &ValidUpdate) -> bool {
        !update.replaces && !self.staged.contains_key(&update.snapshot)
    }

    /// Checks steps, each with the time of its arrival.
    fn check(&self, steps: Vec<(Moment, v1::StreamSnapshotRequest)>) -> Vec<CheckedStep> {
        let each = steps.into_iter();
        each.map(|(arrived, wire)| (arrived, self.check_step(wire, arrived)))
            .collect()
    }

    fn check_step(
        &self,
        wire: v1::StreamSnapshotRequest,
        arrived: Moment,
    ) -> Result<ValidStep, Error> {
        if let Some(snapshot) = wire.step.as_ref().map(snapshot_of) {
            permission::allow(self.caller.as_ref(), Role::Feeder, snapshot)?;
        }
        let wire = match wire.step {
            Some(Step::Update(wire)) => wire,
            Some(Step::BeginReplace(wire)) => return Ok(ValidStep::Begin(wire)),
            Some(Step::CommitReplace(wire)) => return Ok(ValidStep::Commit(wire)),
            None => {
                let rule = "must be an update, a beginReplace or a commitReplace";
                return Err(Error::fault(Path::root("step"), rule));
            }
        };
        let path = Path::root("update");
        let mut checked = ValidUpdate::of(wire, Some(&path), arrived, self.registry.limits())?;
        checked.offer.fence = self.fence.clone();
        Ok(ValidStep::Update(checked))
    }

    /// Applies a run of batches.
    fn settle(&self, run: &mut Run, answers: &mut Vec<Acknowledged>) {
        let Run { snapshot, offers } = std::mem::take(run);
        if offers.is_empty() {
            return;
        }
        match self.registry.update_in_order(&snapshot, offers.into()) {
            Ok(outcomes) => answers.extend(
                outcomes
                    .into_iter()
                    .map(|outcome| Ok(update::response(&outcome?))),
            ),
            Err(error) => answers.push(Err(error.into())),
        }
    }

    fn update(&mut self, checked: ValidUpdate) -> Acknowledged {
        let path = Path::root("update");
        let Some(staged) = self.staged.get_mut(&checked.snapshot) else {
            return Ok(update::response(&checked.apply(&self.registry)?));
        };
        if checked.replaces {
            let rule = "must be a delta inside a replace";
            return Err(Error::fault(path.field("mode"), rule));
        }
        if checked.offer.expected_revision.is_some() {
            let rule = "belongs on commitReplace inside a replace";
            return Err(Error::fault(path.field("expectedRevision"), rule));
        }
        let applied = checked.apply_staged(staged, self.registry.limits())?;
        let (revision, epoch) = self.live(&checked.snapshot);
        Ok(update::counts(revision, &epoch, applied))
    }

    fn begin(&mut self, wire: &v1::BeginReplace) -> Acknowledged {
        let path = Path::root("beginReplace");
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, path.field("snapshot"), &mut faults);
        if self.staged.len() >= MAX_REPLACES {
            let rule = format!("is one of more than {MAX_REPLACES} replaces on this stream");
            faults.add(path.field("snapshot"), rule);
        } else if self.staged.contains_key(&snapshot) {
            faults.add(
                path.field("snapshot"),
                "has a replace on this stream already",
            );
        }
        let snapshot = faults.finish(snapshot)?;
        let (revision, epoch) = self.live(&snapshot);
        let staged = self.registry.stage(&snapshot)?;
        self.staged.insert(snapshot, staged);
        Ok(update::counts(revision, &epoch, Default::default()))
    }

    fn commit(&mut self, wire: &v1::CommitReplace, arrived: Moment) -> Acknowledged {
        let path = Path::root("commitReplace");
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, path.field("snapshot"), &mut faults);
        if let Some(revision) = wire.expected_revision {
            request::check_not_negative(revision, path.field("expectedRevision"), &mut faults);
        }
        let Some(staged) = self.staged.remove(&snapshot) else {
            faults.add(path.field("snapshot"), "has no replace on this stream");
            return Err(faults.into());
        };
        faults.finish(())?;
        let only_if = (wire.expected_revision, self.fence.as_ref());
        let update = self.registry.replace(&snapshot, staged, only_if, arrived)?;
        Ok(update::response(&update))
    }

    /// Revision and epoch of the live state; 0 and "" when there is none yet.
    fn live(&self, snapshot: &str) -> (i64, String) {
        let live = self.registry.get(snapshot);
        live.map_or((0, String::new()), |s| (s.revision(), s.epoch().to_owned()))
    }
}

fn snapshot_of(step: &Step) -> &str {
    match step {
        Step::Update(update) => &update.snapshot,
        Step::BeginReplace(begin) => &begin.snapshot,
        Step::CommitReplace(commit) => &commit.snapshot,
    }
}

/// Takes the steps of a feed until the client ends it, a step is refused, the
/// server drains, or the deadline passes.
///
/// # Errors
/// [`Error::Deadline`], and that a step could not be taken.
pub async fn run_feed(
    mut feed: Feed,
    mut steps: Streaming<Bytes>,
    answers: mpsc::Sender<Result<Bytes, Status>>,
    draining: CancellationToken,
    executor: Executor,
    by: RequestContext,
) -> Result<(), Error> {
    let is_journaled = feed.registry.is_journaled();
    loop {
        let step = tokio::select! {
            step = until(by.deadline, steps.next()) => {
                step.unwrap_or_else(|late| Some(Err(late.into())))
            }
            () = draining.cancelled() => Some(Err(Error::Draining.into())),
            () = answers.closed() => None,
        };
        let Some(step) = step else { return Ok(()) };
        let group = gather(step, &mut steps, &feed, is_journaled).await;
        let StepGroup { taken, size, end } = group;
        let is_large = size >= LARGE_BATCH;
        let check = move || (feed.check(taken), feed);
        let checked = executor.unlocked(is_large, &by, check).await?;
        let (answered, same) = take(checked, is_large || is_journaled, &executor, &by).await?;
        feed = same;
        let answered = answered.into_iter().map(|a| a.map_err(Status::from));
        for answer in answered.chain(end.map(Err)) {
            let goes_on = answer.is_ok();
            if answers.send(answer.map(encode)).await.is_err() || !goes_on {
                return Ok(());
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
    taken: Vec<(Moment, v1::StreamSnapshotRequest)>,
    size: usize,
    /// The reason why no more steps come, if the stream has ended.
    end: Option<Status>,
}

impl StepGroup {
    /// Adds a step. Returns whether more may be added.
    fn add(&mut self, step: Result<Bytes, Status>, arrived: Moment) -> bool {
        let decode = |step| v1::StreamSnapshotRequest::decode(step).map_err(Error::from);
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

fn step_size(step: &v1::StreamSnapshotRequest) -> usize {
    match &step.step {
        Some(Step::Update(update)) => update.changes.len(),
        // A commit drops the old state, which may be large.
        Some(Step::CommitReplace(_)) => usize::MAX,
        _ => 0,
    }
}
