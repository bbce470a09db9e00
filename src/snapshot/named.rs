//! A named snapshot: the state that answers, and how it moves on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use event_listener::{Event, EventListener};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::change::Batch;
use super::cut::Cut;
use super::defaults::Defaults;
use super::error::{Error, check_limit};
use super::frozen::{Frozen, Kept};
use super::limits::Limits;
use super::registry::Observer;
use super::state::{Applied, Sizes, State};

/// A named snapshot.
pub struct Snapshot {
    name: String,
    epoch: String,
    created: SystemTime,
    /// Whether it is synced only from its first replace on.
    expected: bool,
    synced: AtomicBool,
    live: RwLock<Arc<State>>,
    /// Held by whoever applies a batch.
    turn: Mutex<Turn>,
    updated: Mutex<SystemTime>,
    moved: Event,
    observer: Arc<dyn Observer>,
}

#[derive(Debug)]
struct Turn {
    deleted: bool,
}

/// Where a batch brought its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The revision after it.
    pub revision: i64,
    /// The epoch of the revision.
    pub epoch: String,
    /// What it did.
    pub applied: Applied,
}

/// A new state that is built aside, to be swapped in whole.
#[derive(Debug)]
pub struct Staged {
    pub(super) state: State,
    applied: Applied,
    defaults: Option<Arc<Defaults>>,
    batches: i64,
}

/// What a snapshot is about, at one moment.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Name.
    pub name: String,
    /// Identifies its history.
    pub epoch: String,
    /// Its version.
    pub revision: i64,
    /// Whether decisions are answered.
    pub synced: bool,
    /// How much it holds.
    pub sizes: Sizes,
    /// Its default constraints.
    pub defaults: Arc<Defaults>,
    /// What it takes in memory: an estimate, in bytes.
    pub memory_bytes: usize,
    /// What its views take of that, in bytes.
    pub view_bytes: usize,
    /// When it was created.
    pub created: SystemTime,
    /// When the last batch was applied; when it was created if none was.
    pub updated: SystemTime,
}

impl Snapshot {
    /// An empty one, created at `at`. An `expected` one is synced only from its
    /// first replace on.
    pub(super) fn new(
        name: &str,
        expected: bool,
        max_view_bytes: usize,
        observer: Arc<dyn Observer>,
        at: SystemTime,
    ) -> Self {
        Self {
            name: name.to_owned(),
            epoch: Uuid::new_v4().to_string(),
            created: at,
            expected,
            observer,
            synced: AtomicBool::new(false),
            live: RwLock::new(Arc::new(State::new(max_view_bytes))),
            turn: Mutex::new(Turn { deleted: false }),
            updated: Mutex::new(at),
            moved: Event::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What identifies its history.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Whether decisions are answered.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Whether the server was told to expect it.
    pub fn is_expected(&self) -> bool {
        self.expected
    }

    /// The revision of the state that answers.
    pub fn revision(&self) -> i64 {
        self.live().revision()
    }

    /// Is notified whenever the revision grows, and when it is deleted.
    pub fn moved(&self) -> EventListener {
        self.moved.listen()
    }

    pub(super) fn live(&self) -> Arc<State> {
        Arc::clone(&self.live.read())
    }

    /// Runs a decision on one revision of a namespace, with an overlay
    /// applied for it alone.
    pub fn read<T>(&self, namespace: &str, overlay: Batch, decide: impl FnOnce(Cut<'_>) -> T) -> T {
        let live = self.live();
        if overlay.is_empty() {
            live.read(namespace, decide)
        } else {
            live.read_overlaid(namespace, overlay, decide)
        }
    }

    /// Applies a batch to the live state. `None` when the snapshot was deleted
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::RevisionMismatch`], and [`Error::OverLimit`] when it would
    /// grow too large.
    pub(super) fn update(
        &self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        expected_revision: Option<i64>,
        limits: &Limits,
        now: SystemTime,
    ) -> Result<Option<Update>, Error> {
        let turn = self.turn.lock();
        if turn.deleted {
            return Ok(None);
        }
        let live = self.live();
        self.check_revision(&live, expected_revision)?;
        check_room(&live, batch, limits)?;
        let revision = live.revision() + 1;
        let applied = live.apply(batch, defaults, revision);
        *self.updated.lock() = now;
        Ok(Some(self.moved_on(revision, applied, !self.expected)))
    }

    /// Swaps a new state in. `None` when the snapshot was deleted meanwhile.
    ///
    /// # Errors
    /// [`Error::RevisionMismatch`].
    pub(super) fn replace(
        &self,
        staged: &mut Option<Staged>,
        expected_revision: Option<i64>,
        now: SystemTime,
    ) -> Result<Option<Update>, Error> {
        let turn = self.turn.lock();
        if turn.deleted {
            return Ok(None);
        }
        let live = self.live();
        self.check_revision(&live, expected_revision)?;
        let Staged {
            mut state,
            applied,
            defaults,
            ..
        } = staged.take().expect("a state is swapped in once");
        let revision = live.revision() + 1;
        state.adopt(revision, defaults.unwrap_or_else(|| live.defaults()));
        *self.live.write() = Arc::new(state);
        *self.updated.lock() = now;
        Ok(Some(self.moved_on(revision, applied, true)))
    }

    /// Starts a new tick for the views of the live state; see [`State::sweep`].
    pub(super) fn sweep(&self, idle_ticks: u64) {
        self.live().sweep(idle_ticks);
    }

    fn check_revision(&self, live: &State, expected: Option<i64>) -> Result<(), Error> {
        match expected {
            Some(expected) if expected != live.revision() => Err(Error::RevisionMismatch {
                snapshot: self.name.clone(),
                expected,
                actual: live.revision(),
            }),
            _ => Ok(()),
        }
    }

    fn moved_on(&self, revision: i64, applied: Applied, syncs: bool) -> Update {
        if syncs && !self.synced.swap(true, Ordering::AcqRel) {
            self.observer.snapshot_changed(&self.name, true);
        }
        self.moved.notify(usize::MAX);
        Update {
            revision,
            epoch: self.epoch.clone(),
            applied,
        }
    }

    /// Marks it deleted, so that later updates look for another of the name;
    /// whether it was not deleted already.
    pub(super) fn delete(&self) -> bool {
        let mut turn = self.turn.lock();
        let first = !std::mem::replace(&mut turn.deleted, true);
        if first {
            self.observer.snapshot_deleted(&self.name);
            self.moved.notify(usize::MAX);
        }
        first
    }

    /// Marks it deleted if it is not expected and no batch was ever applied;
    /// whether it is so.
    pub(super) fn delete_if_unused(&self) -> bool {
        let mut turn = self.turn.lock();
        let unused = !self.expected && self.revision() == 0;
        turn.deleted |= unused;
        unused
    }

    /// What it is about.
    pub fn summary(&self) -> Summary {
        let updated = *self.updated.lock();
        let live = self.live();
        Summary {
            name: self.name.clone(),
            epoch: self.epoch.clone(),
            revision: live.revision(),
            synced: self.is_synced(),
            sizes: live.sizes(),
            defaults: live.defaults(),
            memory_bytes: live.memory_bytes(),
            view_bytes: live.view_bytes(),
            created: self.created,
            updated,
        }
    }

    /// A copy of everything, of one revision. Batches wait while it is made.
    pub fn freeze(&self) -> Frozen {
        let _no_batch = self.turn.lock();
        self.live().freeze()
    }

    /// As [`Self::freeze`], with what is kept up to date.
    pub fn freeze_kept(&self) -> (Frozen, Kept) {
        let _no_batch = self.turn.lock();
        self.live().freeze_kept()
    }
}

impl Staged {
    /// An empty state.
    pub fn new(limits: &Limits) -> Self {
        Self {
            state: State::new(limits.max_view_bytes),
            applied: Applied::default(),
            defaults: None,
            batches: 0,
        }
    }

    /// Applies a batch to it.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when it would grow too large.
    pub fn apply(
        &mut self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        limits: &Limits,
    ) -> Result<Applied, Error> {
        check_room(&self.state, batch, limits)?;
        self.batches += 1;
        let applied = self.state.apply(batch, None, self.batches);
        self.applied.add(applied);
        self.defaults = defaults.or(self.defaults.take());
        Ok(applied)
    }
}

/// Checks that a state may grow by a batch.
fn check_room(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let (now, most) = (state.sizes(), batch.len());
    let roomy = now.nodes + most <= limits.max_nodes
        && now.pods + most <= limits.max_pods
        && now.label_sets + most <= limits.max_label_sets
        && now.owners + most <= limits.max_owners;
    if roomy {
        return Ok(());
    }
    let new = state.additions(batch);
    let check = |what, name, limit, now: usize, new: usize| {
        // What only shrinks or stays is let through, whatever the limit.
        if new == 0 {
            Ok(())
        } else {
            check_limit(what, name, limit, now + new)
        }
    };
    check("nodes", "max-nodes", limits.max_nodes, now.nodes, new.nodes)?;
    check("pods", "max-pods", limits.max_pods, now.pods, new.pods)?;
    check(
        "label sets",
        "max-label-sets",
        limits.max_label_sets,
        now.label_sets,
        new.label_sets,
    )?;
    check(
        "services and owners",
        "max-owners",
        limits.max_owners,
        now.owners,
        new.owners,
    )
}
