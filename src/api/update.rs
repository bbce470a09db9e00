//! `UpdateSnapshot`: a request becomes a batch. `StreamSnapshot`: batches one after another, and staged
//! replaces; its steps come in, and acknowledgements go out.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::error::Error;
use super::executor::{Executor, until};
use super::request;
use super::request_context::{RequestContext, check_role};
use crate::access::{Caller, Role};
use crate::limits::Limit;
use crate::matching::{KubernetesVersion, Path, Violations};
use crate::proto::encoded::{encode, take_list};
use crate::proto::v1;
use crate::proto::v1::stream_snapshot_request::Step;
use crate::snapshot::offer::Update;
use crate::snapshot::replacing::Staged;
use crate::snapshot::revision::Applied;
use crate::snapshot::{
    self, Batch, Defaults, Fence, Limits, Moment, Offer, Registry, ResourceVersions,
};
use crate::tasks;

/// A valid update request.
#[derive(Debug)]
pub struct ValidUpdate {
    /// The name of the snapshot.
    pub snapshot: String,
    /// True if the changes are the whole state.
    pub replaces: bool,
    /// The changes, and the terms on which they apply.
    pub offer: Offer,
}

impl ValidUpdate {
    /// Checks a request that arrived at the moment `arrived`. Its last changes may be `encoded`.
    /// `parent` is the field of another request that contains this one; `None` if none does.
    ///
    /// # Errors
    /// Every fault of the request; [`Error::Undecodable`] if a change cannot be decoded.
    pub fn of(
        wire: v1::UpdateSnapshotRequest,
        encoded: Vec<Bytes>,
        parent: Option<&Path<'_>>,
        arrived: Moment,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let field = |name| match parent {
            Some(parent) => parent.field(name),
            None => Path::root(name),
        };
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, field("snapshot"), &mut faults);
        let mode: v1::Mode = request::known(wire.mode, field("mode"), &mut faults);
        if let Some(revision) = wire.expected_revision {
            let path = field("expectedRevision");
            request::check_not_negative(revision, path, &mut faults);
        }
        let defaults = wire.default_constraints.map(|wire| {
            let path = field("defaultConstraints");
            faults.collect(Defaults::compile(&wire, limits, path))
        });
        let version = field("kubernetesVersion");
        let version = KubernetesVersion::compile(&wire.kubernetes_version, version, &mut faults);
        let age = request::age(wire.age, field("age"), &mut faults);
        request::check_cluster(&wire.cluster, field("cluster"), &mut faults);
        let path = field("changes");
        let count = wire.changes.len().saturating_add(encoded.len());
        let mut undecodable = None;
        let decode = |change| match v1::Change::decode(change) {
            Ok(change) => Some(change),
            Err(error) => {
                undecodable = Some(error);
                None
            }
        };
        let changes = wire
            .changes
            .into_iter()
            .chain(encoded.into_iter().map_while(decode));
        let batch = match faults.within(path, limits, Limit::ChangesPerBatch, count) {
            true => faults.collect(Batch::read(changes, limits, path)),
            false => None,
        };
        if let Some(error) = undecodable {
            return Err(error.into());
        }
        Ok(faults.finish(Self {
            snapshot,
            replaces: mode == v1::Mode::Replace,
            offer: Offer {
                batch: Arc::new(batch.unwrap_or_default()),
                defaults: defaults.flatten().map(Arc::new),
                version,
                resource_versions: ResourceVersions::of_feed(wire.resource_versions, wire.cluster),
                expected_revision: wire.expected_revision,
                fence: None,
                arrived,
                age,
            },
        })?)
    }

    /// Applies the update to the live state of its snapshot.
    ///
    /// # Errors
    /// Those of [`Registry::update`] and [`Registry::replace`].
    pub fn apply(self, registry: &Registry) -> Result<Update, Error> {
        if self.replaces {
            let mut staged = registry.stage(&self.snapshot)?;
            self.apply_staged(&mut staged, registry.limits())?;
            let offer = &self.offer;
            let only_if = (offer.expected_revision, offer.fence.as_ref());
            return Ok(registry.replace(&self.snapshot, staged, only_if, offer.arrived)?);
        }
        Ok(registry.update(&self.snapshot, self.offer)?)
    }

    /// Applies the update to a staged state.
    ///
    /// # Errors
    /// Those of [`Staged::apply`] and [`Staged::read_up_to`].
    pub fn apply_staged(&self, staged: &mut Staged, limits: &Limits) -> Result<Applied, Error> {
        let offer = &self.offer;
        staged.set_version(offer.version);
        let other = |other| snapshot::Error::OtherCluster(self.snapshot.clone(), other);
        let read = staged.read_up_to(&offer.resource_versions);
        read.map_err(other)?;
        Ok(staged.apply(&offer.batch, offer.defaults.clone(), limits)?)
    }
}

/// Returns the result of an update, for the wire.
pub fn response(update: &Update) -> v1::UpdateSnapshotResponse {
    counts(update.revision, &update.epoch, update.applied)
}

/// As [`response`], from its parts.
pub fn counts(revision: i64, epoch: &str, applied: Applied) -> v1::UpdateSnapshotResponse {
    v1::UpdateSnapshotResponse {
        revision,
        epoch: epoch.to_owned(),
        changed_count: i64::try_from(applied.changed).unwrap_or(i64::MAX),
        unchanged_count: i64::try_from(applied.unchanged).unwrap_or(i64::MAX),
        skipped_count: i64::try_from(applied.skipped).unwrap_or(i64::MAX),
    }
}

/// The most replaces that a stream may have begun: each is a state of its own.
const MAX_REPLACES: usize = 4;

/// The most steps that are taken together, after they arrived while others were stored.
pub const MAX_GROUP: usize = 16;

/// The bytes that such steps have together, before the last one is added.
const GROUP_BYTES: usize = 1 << 20;

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

/// Takes the changes out of the update of a step, so that they are decoded one after the other:
/// decoded, each takes several times its bytes.
fn without_changes(step: Bytes) -> (Bytes, Vec<Bytes>) {
    // The numbers of StreamSnapshotRequest.update and UpdateSnapshotRequest.changes.
    const UPDATE: u32 = 1;
    const CHANGES: u32 = 2;
    let taken = take_list(&step, UPDATE).and_then(|(rest, updates)| match &updates[..] {
        [update] if rest.is_empty() => take_list(update, CHANGES),
        _ => None,
    });
    let Some((update, changes)) = taken else {
        return (step, Vec::new());
    };
    let mut step = Vec::new();
    prost::encoding::bytes::encode(UPDATE, &update, &mut step);
    (step.into(), changes)
}

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

/// The answer to a step.
type Acknowledged = Result<v1::UpdateSnapshotResponse, Status>;

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

    /// Takes steps that arrived at this moment in order, until one is refused. Returns the answers up
    /// to that one. Consecutive batches of one snapshot are stored together.
    fn steps(&mut self, steps: Vec<Result<Bytes, Status>>, arrived: Moment) -> Vec<Acknowledged> {
        let mut answers = Vec::with_capacity(steps.len());
        let mut run = Run::default();
        for step in steps {
            let step = step.and_then(|step| Ok(self.check(step, arrived)?));
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
            answers.push(match step {
                Ok(ValidStep::Update(update)) if offers => {
                    run.snapshot = update.snapshot;
                    run.offers.push(update.offer);
                    continue;
                }
                Ok(ValidStep::Update(update)) => self.update(update).map_err(Status::from),
                Ok(ValidStep::Begin(wire)) => self.begin(&wire).map_err(Status::from),
                Ok(ValidStep::Commit(wire)) => self.commit(&wire, arrived).map_err(Status::from),
                Err(status) => Err(status),
            });
        }
        self.settle(&mut run, &mut answers);
        answers
    }

    /// Returns whether a batch changes a part of the live state of its snapshot.
    fn is_offer(&self, update: &ValidUpdate) -> bool {
        !update.replaces && !self.staged.contains_key(&update.snapshot)
    }

    /// Checks a step.
    ///
    /// # Errors
    /// The reason why it is refused.
    fn check(&self, step: Bytes, arrived: Moment) -> Result<ValidStep, Error> {
        let (step, changes) = without_changes(step);
        let wire = v1::StreamSnapshotRequest::decode(step)?;
        if let Some(snapshot) = wire.step.as_ref().map(snapshot_of) {
            check_role(self.caller.as_ref(), Role::Feeder, snapshot)?;
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
        let (path, limits) = (Path::root("update"), self.registry.limits());
        let mut checked = ValidUpdate::of(wire, changes, Some(&path), arrived, limits)?;
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
            Ok(outcomes) => answers.extend(outcomes.into_iter().map(|outcome| {
                let update = outcome.map_err(Error::from)?;
                Ok(response(&update))
            })),
            Err(error) => answers.push(Err(Error::from(error).into())),
        }
    }

    fn update(&mut self, checked: ValidUpdate) -> Result<v1::UpdateSnapshotResponse, Error> {
        let path = Path::root("update");
        let Some(staged) = self.staged.get_mut(&checked.snapshot) else {
            return Ok(response(&checked.apply(&self.registry)?));
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
        Ok(counts(revision, &epoch, applied))
    }

    fn begin(&mut self, wire: &v1::BeginReplace) -> Result<v1::UpdateSnapshotResponse, Error> {
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
        Ok(counts(revision, &epoch, Default::default()))
    }

    fn commit(
        &mut self,
        wire: &v1::CommitReplace,
        arrived: Moment,
    ) -> Result<v1::UpdateSnapshotResponse, Error> {
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
        Ok(response(&update))
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
    loop {
        let group = tokio::select! {
            group = until(by.deadline, gather(&mut steps)) => group?,
            () = draining.cancelled() => return Err(Error::Draining),
            () = answers.closed() => return Ok(()),
        };
        if group.is_empty() {
            return Ok(());
        }
        let arrived = feed.registry.now().steady;
        let take = move || (feed.steps(group, arrived), feed);
        let (answered, same) = executor.change(&by, take).await?;
        feed = same;
        for answer in answered {
            let goes_on = answer.is_ok();
            let answer = answer.map(|update| {
                let update = Some(update);
                encode(v1::StreamSnapshotResponse { update })
            });
            if answers.send(answer).await.is_err() || !goes_on {
                return Ok(());
            }
        }
    }
}

/// Returns the next step and those that have arrived since, which are stored together; none at the
/// end.
async fn gather(steps: &mut Streaming<Bytes>) -> Vec<Result<Bytes, Status>> {
    let mut group = Vec::new();
    let mut bytes = 0_usize;
    let mut next = steps.next().await;
    while let Some(step) = next {
        bytes = bytes.saturating_add(step.as_ref().map_or(0, Bytes::len));
        group.push(step);
        next = match group.len() < MAX_GROUP && bytes < GROUP_BYTES {
            true => steps.next().now_or_never().flatten(),
            false => None,
        };
    }
    group
}
