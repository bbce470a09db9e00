//! `StreamSnapshot`: batches one after another, and replaces built aside.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::error::Error;
use super::update::{self, ValidUpdate};
use super::{permission, request};
use crate::access::{Caller, Role};
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::proto::v1::stream_snapshot_request::Step;
use crate::snapshot::{Moment, Offer, Registry, Staged};

/// How many replaces a stream may have begun: each is a state of its own.
const MAX_REPLACES: usize = 4;

/// One feed: what its stream has begun and not yet committed.
pub struct Feed {
    registry: Arc<Registry>,
    /// Who feeds, where callers are told apart.
    caller: Option<Caller>,
    /// The replaces that are being built, by snapshot.
    staged: HashMap<String, Staged>,
}

impl Drop for Feed {
    /// Dropping a large replace takes long, and the thread that a stream ends
    /// on serves connections.
    fn drop(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        if let (false, Ok(runtime)) = (staged.is_empty(), Handle::try_current()) {
            runtime.spawn_blocking(move || drop(staged));
        }
    }
}

/// A step that passed its checks.
enum Next {
    /// A batch for the live state of a snapshot.
    Offer(String, Offer),
    /// A batch for a state aside, or a replace in one message.
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
    pub fn new(registry: Arc<Registry>, caller: Option<Caller>) -> Self {
        Self {
            registry,
            caller,
            staged: HashMap::new(),
        }
    }

    /// What time it is by the clock of the registry.
    pub fn now(&self) -> Moment {
        self.registry.now().steady
    }

    /// Whether steps do nothing but add to states that nobody reads.
    pub fn only_stages(&self, steps: &[(Moment, v1::StreamSnapshotRequest)]) -> bool {
        let stages = |request: &v1::StreamSnapshotRequest| match &request.step {
            Some(Step::Update(update)) => {
                let snapshot = request::parse_snapshot_name(&update.snapshot);
                snapshot.is_ok_and(|snapshot| self.staged.contains_key(&snapshot))
            }
            _ => false,
        };
        steps.iter().all(|(_, request)| stages(request))
    }

    /// Takes steps, each with the time of its arrival, in order, until one is
    /// refused. Returns the answers up to that one. Consecutive batches of one
    /// snapshot are stored together.
    pub fn steps(
        &mut self,
        wires: Vec<(Moment, v1::StreamSnapshotRequest)>,
    ) -> Vec<Result<v1::StreamSnapshotResponse, Error>> {
        let mut answers: Vec<Acknowledged> = Vec::with_capacity(wires.len());
        let mut run = Run::default();
        for (arrived, wire) in wires {
            let next = self.check(wire, arrived);
            let joins = matches!(&next, Ok(Next::Offer(snapshot, _)) if *snapshot == run.snapshot);
            if !joins {
                self.settle(&mut run, &mut answers);
            }
            if answers.last().is_some_and(Result::is_err) {
                break;
            }
            match next {
                Ok(Next::Offer(snapshot, offer)) => {
                    run.snapshot = snapshot;
                    run.offers.push(offer);
                }
                Ok(Next::Update(checked)) => answers.push(self.update(checked)),
                Ok(Next::Begin(wire)) => answers.push(self.begin(&wire)),
                Ok(Next::Commit(wire)) => answers.push(self.commit(&wire, arrived)),
                Err(error) => answers.push(Err(error)),
            }
        }
        self.settle(&mut run, &mut answers);
        let response = |update| v1::StreamSnapshotResponse {
            update: Some(update),
        };
        answers.into_iter().map(|a| a.map(response)).collect()
    }

    fn check(&self, wire: v1::StreamSnapshotRequest, arrived: Moment) -> Result<Next, Error> {
        if let Some(snapshot) = wire.step.as_ref().map(snapshot_of) {
            permission::allow(self.caller.as_ref(), Role::Feeder, snapshot)?;
        }
        let wire = match wire.step {
            Some(Step::Update(wire)) => wire,
            Some(Step::BeginReplace(wire)) => return Ok(Next::Begin(wire)),
            Some(Step::CommitReplace(wire)) => return Ok(Next::Commit(wire)),
            None => {
                let rule = "must be an update, a beginReplace or a commitReplace";
                return Err(fault(Path::root("step"), rule));
            }
        };
        let path = Path::root("update");
        let checked = ValidUpdate::of(wire, Some(&path), arrived, self.registry.limits())?;
        if checked.replaces || self.staged.contains_key(&checked.snapshot) {
            return Ok(Next::Update(checked));
        }
        let (snapshot, offer) = checked.into_offer();
        Ok(Next::Offer(snapshot, offer))
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
            return Err(fault(
                path.field("mode"),
                "must be a delta inside a replace",
            ));
        }
        if checked.expected_revision.is_some() {
            let rule = "belongs on commitReplace inside a replace";
            return Err(fault(path.field("expectedRevision"), rule));
        }
        let applied = staged.apply(&checked.batch, checked.defaults, self.registry.limits())?;
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
        let staged = self.staged.remove(&snapshot);
        if staged.is_none() {
            faults.add(path.field("snapshot"), "has no replace on this stream");
        }
        let Some(staged) = staged else {
            return Err(faults.into());
        };
        faults.finish(())?;
        let update = self
            .registry
            .replace(&snapshot, staged, wire.expected_revision, arrived)?;
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

fn fault(path: Path<'_>, description: &str) -> Error {
    let mut faults = Violations::default();
    faults.add(path, description);
    faults.into()
}
