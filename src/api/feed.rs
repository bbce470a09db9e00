//! `StreamSnapshot`: batches one after another, and replaces built aside.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::Error;
use super::update::{self, Checked};
use super::{permission, request};
use crate::access::{Caller, Role};
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::proto::v1::stream_snapshot_request::Step;
use crate::snapshot::{Registry, Staged};

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

impl Feed {
    /// A feed that has begun nothing.
    pub fn new(registry: Arc<Registry>, caller: Option<Caller>) -> Self {
        Self {
            registry,
            caller,
            staged: HashMap::new(),
        }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// Why the step is refused; it changed nothing then.
    pub fn step(
        &mut self,
        wire: v1::StreamSnapshotRequest,
    ) -> Result<v1::StreamSnapshotResponse, Error> {
        if let Some(snapshot) = wire.step.as_ref().map(snapshot_of) {
            permission::allow(self.caller.as_ref(), Role::Feeder, snapshot)?;
        }
        let response = match wire.step {
            Some(Step::Update(wire)) => self.update(wire)?,
            Some(Step::BeginReplace(wire)) => self.begin(&wire)?,
            Some(Step::CommitReplace(wire)) => self.commit(&wire)?,
            None => {
                let rule = "must be an update, a beginReplace or a commitReplace";
                return Err(fault(Path::root("step"), rule));
            }
        };
        Ok(v1::StreamSnapshotResponse {
            update: Some(response),
        })
    }

    fn update(
        &mut self,
        wire: v1::UpdateSnapshotRequest,
    ) -> Result<v1::UpdateSnapshotResponse, Error> {
        let path = Path::root("update");
        let checked = Checked::of(wire, Some(&path), self.registry.limits())?;
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
        self.staged
            .insert(snapshot, Staged::new(self.registry.limits()));
        Ok(update::counts(revision, &epoch, Default::default()))
    }

    fn commit(&mut self, wire: &v1::CommitReplace) -> Result<v1::UpdateSnapshotResponse, Error> {
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
            .replace(&snapshot, staged, wire.expected_revision)?;
        Ok(update::response(&update))
    }

    /// Revision and epoch of the state that answers; of none yet, 0 and "".
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
