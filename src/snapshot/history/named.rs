//! A named snapshot: the state that answers, and how it moves on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use event_listener::{Event, EventListener};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::book::Book;
use super::committing::{Job, Outcomes};
use super::error::Error;
use super::freshness::{Freshness, MaxAges};
use super::group_commit::Convoy;
use super::journal::Journal;
use super::registry::Observer;
use super::restoring::Restoring;
use super::retired::Retired;
use crate::account::{Account, Gauge, Part};
use crate::snapshot::budget::Delay;
use crate::snapshot::clock::{Clock, Moment, Now};
use crate::snapshot::counters::{self as tally, Tally};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::state::footprint::Memory;
use crate::snapshot::state::frozen::{Frozen, Kept};
use crate::snapshot::state::pod_groups::Census;
use crate::snapshot::state::read_view::Cut;
use crate::snapshot::state::shards::{Applied, Sizes, State};

/// A named snapshot.
pub struct Snapshot {
    name: String,
    epoch: String,
    pub(in crate::snapshot) created: SystemTime,
    /// Whether it is synced only from its first replace on.
    expected: bool,
    pub(in crate::snapshot) synced: AtomicBool,
    live: RwLock<Arc<State>>,
    /// Those that answered before.
    retired: Retired<State>,
    /// Held by whoever applies a batch.
    pub(in crate::snapshot) turn: Mutex<Turn>,
    pub(in crate::snapshot) updated: Mutex<Now>,
    pub(in crate::snapshot) clock: Clock,
    /// Changed by whoever has the turn.
    pub(in crate::snapshot) book: Mutex<Book>,
    /// What the book takes.
    pub(in crate::snapshot) held_bytes: Gauge,
    /// The [`Moment`] when the time of the next reservation is over.
    pub(in crate::snapshot) next_expiry: AtomicI64,
    /// Is notified when that becomes earlier.
    pub(in crate::snapshot) ends_changed: Arc<Event>,
    moved: Event,
    pub(in crate::snapshot) observer: Arc<dyn Observer>,
    pub(in crate::snapshot) freshness: Freshness,
    /// What takes every step before it is taken; none for one that is in
    /// memory alone.
    pub(in crate::snapshot) journal: Option<Arc<dyn Journal>>,
    /// Where those wait who have something for the journal.
    pub(in crate::snapshot) convoy: Convoy<Job, Outcomes>,
    pub(in crate::snapshot) tally: Arc<Tally>,
}

/// What all snapshots of a registry have in common.
#[derive(Clone)]
pub(in crate::snapshot) struct Surroundings {
    pub max_view_bytes: usize,
    pub account: Arc<Account>,
    pub max_ages: MaxAges,
    pub observer: Arc<dyn Observer>,
    pub clock: Clock,
    pub ends_changed: Arc<Event>,
    pub journal: Option<Arc<dyn Journal>>,
}

#[derive(Debug, Default)]
pub(in crate::snapshot) struct Turn {
    pub(in crate::snapshot) deleted: bool,
    /// The number of the last entry in the journal.
    pub(in crate::snapshot) sequence: u64,
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
    /// How many reservations are live.
    pub reservations: usize,
    /// Its default constraints.
    pub defaults: Arc<Defaults>,
    /// How many namespaces have pods, services or controllers.
    pub namespaces: usize,
    /// How many views are kept.
    pub views: usize,
    /// What it takes in memory.
    pub memory: Memory,
    /// When it was created.
    pub created: SystemTime,
    /// When the last batch was applied; when it was created if none was.
    pub updated: SystemTime,
    /// How long ago that was, whatever became of the wall clock.
    pub unchanged_for: Duration,
    /// How long ago its feed was heard of. `None` when it may get any age.
    pub age: Option<Duration>,
    /// Whether it is older than it may get.
    pub stale: bool,
    /// How long the last batch took from its arrival until it was applied.
    pub lag: Duration,
}

impl Snapshot {
    /// An empty one, created now. An `expected` one is synced only from its
    /// first replace on.
    pub(in crate::snapshot) fn new(name: &str, expected: bool, around: Surroundings) -> Self {
        let at = (around.clock)();
        Self {
            freshness: Freshness::new(name, &around.max_ages, at.steady),
            name: name.to_owned(),
            epoch: Uuid::new_v4().to_string(),
            created: at.wall,
            expected,
            observer: around.observer,
            synced: AtomicBool::new(false),
            live: RwLock::new(Arc::new(State::on(
                &around.account,
                Part::Objects,
                around.max_view_bytes,
            ))),
            retired: Retired::default(),
            turn: Mutex::default(),
            updated: Mutex::new(at),
            clock: around.clock,
            book: Mutex::default(),
            held_bytes: around.account.gauge(Part::Objects),
            next_expiry: AtomicI64::new(Moment::NEVER.to_number()),
            ends_changed: around.ends_changed,
            moved: Event::new(),
            journal: around.journal,
            convoy: Convoy::default(),
            tally: Arc::default(),
        }
    }

    /// One that is read back from a journal, as it was recorded: reservations
    /// whose time is over end by entries that come after this.
    pub(in crate::snapshot) fn restored(
        mut from: Restoring,
        expected: bool,
        around: Surroundings,
    ) -> Self {
        let now = (around.clock)();
        let held = std::mem::take(&mut from.saved.held);
        let book = Book::restored(held, from.saved.last_serial, now);
        from.finish(&Batch::trusted(book.pods(&book.serials())));
        let Restoring { saved, state } = from;
        let turn = Turn {
            deleted: false,
            sequence: saved.sequence,
        };
        // The wall clock is all that is left of the time before.
        let ago = now.wall.duration_since(saved.updated).unwrap_or_default();
        let updated = Now {
            wall: saved.updated,
            steady: now.steady.before(ago),
        };
        let snapshot = Self {
            freshness: Freshness::new(&saved.name, &around.max_ages, updated.steady),
            epoch: saved.epoch,
            created: saved.created,
            synced: AtomicBool::new(saved.synced || !expected),
            live: RwLock::new(Arc::new(state)),
            retired: Retired::default(),
            turn: Mutex::new(turn),
            updated: Mutex::new(updated),
            book: Mutex::new(book),
            ..Self::new(&saved.name, expected, around)
        };
        snapshot.note_expiry();
        snapshot
    }

    /// With what it does counted in `tally`.
    pub(in crate::snapshot) fn tallied(mut self, tally: Arc<Tally>) -> Self {
        let live = Arc::get_mut(self.live.get_mut());
        let live = live.expect("nobody reads a snapshot that is being made");
        live.upkeep.set_tally(Arc::clone(&tally));
        self.tally = tally;
        self
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

    pub(in crate::snapshot) fn live(&self) -> Arc<State> {
        Arc::clone(&self.live.read())
    }

    /// Runs a decision on one revision of a namespace, with an overlay
    /// applied for it alone. Holds up nobody.
    pub fn read<T>(&self, namespace: &str, overlay: Batch, decide: impl FnOnce(Cut<'_>) -> T) -> T {
        let decided = self.read_until(namespace, overlay, &|| false, decide);
        decided.expect("nobody gives it up")
    }

    /// As [`Self::read`], until `is_given_up` says so.
    ///
    /// # Errors
    /// It was given up.
    pub fn read_until<T>(
        &self,
        namespace: &str,
        overlay: Batch,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> Result<T, Delay> {
        let live = self.live();
        if overlay.is_empty() {
            return live.read_until(namespace, is_given_up, decide);
        }
        let taken = self.book.lock().taken_over(overlay.objects());
        let overlay = self.with_deletions(&overlay, &taken).into_owned();
        live.read_overlaid(namespace, overlay, is_given_up, decide)
    }

    /// The namespaces that hold something, ascending by name.
    pub fn namespace_names(&self) -> Vec<Box<str>> {
        self.live().namespace_names()
    }

    /// Looks at all pods of one revision of a namespace, until `is_given_up`
    /// says so.
    ///
    /// # Errors
    /// It was given up.
    pub fn survey<T>(
        &self,
        namespace: &str,
        is_given_up: &dyn Fn() -> bool,
        look: impl FnOnce(Census<'_>) -> T,
    ) -> Result<T, Delay> {
        self.live().survey(namespace, is_given_up, look)
    }

    /// As [`Self::read`], if it costs little. Unless it `waits`, nobody may be
    /// changing what it reads either. `decide` may have run in vain otherwise.
    ///
    /// # Errors
    /// Why it is not.
    pub fn read_at_once<T>(
        &self,
        namespace: &str,
        waits: bool,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> Result<T, Delay> {
        self.live().read_at_once(namespace, waits, decide)
    }

    /// Looks at its age, and starts a new tick for the views of the live state;
    /// see [`State::sweep`].
    pub(in crate::snapshot) fn sweep(&self, idle_ticks: u64) {
        self.look_at_age();
        self.retired.drop_unread();
        self.live().sweep(idle_ticks);
    }

    pub(in crate::snapshot) fn check_revision(
        &self,
        actual: i64,
        expected: Option<i64>,
    ) -> Result<(), Error> {
        match expected {
            Some(expected) if expected != actual => Err(Error::RevisionMismatch {
                snapshot: self.name.clone(),
                expected,
                actual,
            }),
            _ => Ok(()),
        }
    }

    /// Has a new state answer.
    pub(in crate::snapshot) fn put_live(&self, state: State) {
        // Not dropped where it is replaced: decisions wait for that lock.
        let old = std::mem::replace(&mut *self.live.write(), Arc::new(state));
        self.retired.add(old);
    }

    pub(in crate::snapshot) fn moved_on(
        &self,
        revision: i64,
        applied: Applied,
        syncs: bool,
    ) -> Update {
        if syncs && !self.synced.swap(true, Ordering::AcqRel) {
            self.observer.snapshot_changed(&self.name, true);
        }
        self.moved.notify(usize::MAX);
        tally::add(&self.tally.batches, 1);
        tally::add(&self.tally.changed, applied.changed);
        tally::add(&self.tally.unchanged, applied.unchanged);
        Update {
            revision,
            epoch: self.epoch.clone(),
            applied,
        }
    }

    /// Tells everybody that it is deleted.
    pub(in crate::snapshot) fn note_deleted(&self) {
        self.freshness.end();
        self.observer.snapshot_deleted(&self.name);
        self.moved.notify(usize::MAX);
    }

    /// Marks it deleted if it is not expected and no batch was ever applied;
    /// whether it is so.
    pub(in crate::snapshot) fn delete_if_unused(&self) -> bool {
        let mut turn = self.turn.lock();
        let unused = !self.expected && self.revision() == 0;
        turn.deleted |= unused;
        unused
    }

    /// What it is about.
    pub fn summary(&self) -> Summary {
        let updated = *self.updated.lock();
        let live = self.live();
        let reservations = self.book.lock().len();
        let mut sizes = live.sizes();
        // Reservations count as pods, but are none.
        sizes.pods = sizes.pods.saturating_sub(reservations);
        Summary {
            name: self.name.clone(),
            epoch: self.epoch.clone(),
            revision: live.revision(),
            synced: self.is_synced(),
            sizes,
            reservations,
            defaults: live.defaults(),
            namespaces: live.namespace_count(),
            views: live.view_count(),
            memory: Memory {
                reservations: self.held_bytes.bytes(),
                ..live.memory()
            },
            created: self.created,
            updated: updated.wall,
            unchanged_for: (self.clock)().steady.since(updated.steady),
            age: self.age(),
            stale: self.is_stale(),
            lag: self.lag(),
        }
    }

    /// Whether there is memory for a copy of it.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub fn check_copy(&self) -> Result<(), Error> {
        let bytes =
            self.live().footprint.memory().total() / crate::snapshot::state::frozen::COPY_SHARE;
        let room = self.live().footprint.account().charge(Part::Staged, bytes);
        Ok(room.map(drop)?)
    }

    /// A copy of everything, of one moment. Batches wait while it
    /// is made.
    pub fn freeze(&self) -> Frozen {
        let turn = self.turn.lock();
        self.live().freeze(&turn)
    }

    /// As [`Self::freeze`], with what is kept up to date.
    pub fn freeze_kept(&self) -> (Frozen, Kept) {
        let turn = self.turn.lock();
        self.live().freeze_kept(&turn)
    }

    /// As [`Self::freeze_kept`], of one namespace: of its sizes, the copy says
    /// those of the whole. Batches on it wait while it is made, others do not.
    pub fn freeze_kept_of(&self, namespace: &str) -> (Frozen, Kept) {
        self.live().freeze_kept_of(namespace)
    }
}
