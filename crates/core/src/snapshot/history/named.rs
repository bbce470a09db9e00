//! A named snapshot: the state that answers, its changes, and its age (the time since the last batch of
//! its feed, and the age of the feed's knowledge then), with the observer that learns of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use event_listener::{Event, EventListener};
use parking_lot::Mutex;
use uuid::Uuid;

use super::commit::GroupCommit;
use super::journal::{Change, Entry, Journal, Restoring};
use super::offer::{Error, FeedSign, Offer, Outcomes, Update};
use crate::account::Account;
use crate::snapshot::clock::{Clock, Moment, Now};
use crate::snapshot::counters;
use crate::snapshot::counters::SnapshotCounters;
use crate::snapshot::state::revision::{Applied, State};

/// A named snapshot.
pub struct Snapshot {
    name: String,
    /// Unset until the first entry of a journal to which others append as well.
    origin: OnceLock<Origin>,
    /// The origin that the snapshot gets if its first entry is written here.
    draft: Origin,
    /// True if the snapshot is synced only from its first replace on.
    expected: bool,
    pub(super) synced: AtomicBool,
    /// The state that answers. Readers load it and keep it as long as they like; whoever has the
    /// turn publishes the next one.
    state: ArcSwap<State>,
    /// The turn to change the snapshot.
    pub(super) position: Mutex<JournalPosition>,
    pub(super) updated: Mutex<Now>,
    moved: Event,
    pub(super) freshness: Freshness,
    /// Callers that wait for the turn.
    pub(super) group_commit: GroupCommit<Arc<[Offer]>, Outcomes>,
    pub(super) around: Arc<Surroundings>,
}

/// The identity of the history of a snapshot.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The epoch.
    pub epoch: String,
    /// The time when it began.
    pub created: SystemTime,
}

/// The services that all snapshots of a registry share.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub account: Arc<Account>,
    pub max_ages: MaxAges,
    pub observer: Arc<dyn Observer>,
    pub clock: Clock,
    /// Notified when the next end of a reservation becomes earlier.
    pub ends_changed: Arc<Event>,
    /// The journal, which records every step before it is taken; none for snapshots that are only
    /// in memory.
    pub journal: Option<Arc<dyn Journal>>,
    /// The counters of the work of all snapshots.
    pub counters: Arc<SnapshotCounters>,
}

impl Surroundings {
    /// An empty state.
    pub fn empty_state(&self) -> State {
        State::empty(&self.account, &self.counters)
    }

    /// Returns whether others append to the journal, too.
    pub fn is_shared(&self) -> bool {
        self.journal.as_ref().is_some_and(|j| j.is_shared())
    }
}

/// The position of a snapshot in its journal.
#[derive(Debug, Default)]
pub(super) struct JournalPosition {
    /// True if the snapshot is deleted: later updates look for another snapshot of the name.
    pub(super) deleted: bool,
    /// The number of its last entry.
    pub(super) sequence: u64,
}

impl Snapshot {
    /// An empty snapshot, created now. An `expected` one is synced only from its first replace on.
    pub(super) fn new(name: &str, expected: bool, around: Arc<Surroundings>) -> Self {
        let at = (around.clock)();
        let draft = Origin {
            epoch: Uuid::new_v4().to_string(),
            created: at.wall,
        };
        let state = around.empty_state();
        Self {
            freshness: Freshness::new(name, &around.max_ages, at.steady),
            name: name.to_owned(),
            origin: match around.is_shared() {
                true => OnceLock::new(),
                false => draft.clone().into(),
            },
            draft,
            expected,
            synced: AtomicBool::new(false),
            state: ArcSwap::from_pointee(state),
            position: Mutex::default(),
            updated: Mutex::new(at),
            moved: Event::new(),
            group_commit: GroupCommit::default(),
            around,
        }
    }

    /// A snapshot that is read back from a journal, as it was recorded: reservations whose time is
    /// over end by later entries.
    pub(super) fn restored(from: Restoring, expected: bool, around: Arc<Surroundings>) -> Self {
        let saved = from.saved;
        let now = (around.clock)();
        let updated = now.back_to(saved.updated, saved.age);
        let snapshot = Self {
            freshness: Freshness::new(&saved.name, &around.max_ages, updated.steady),
            origin: Origin {
                epoch: saved.epoch.clone(),
                created: saved.created,
            }
            .into(),
            synced: AtomicBool::new(saved.synced || !expected),
            position: Mutex::new(JournalPosition {
                deleted: false,
                sequence: saved.sequence,
            }),
            updated: Mutex::new(updated),
            ..Self::new(&saved.name, expected, around)
        };
        let mut state = State::clone(&snapshot.state());
        let entry = Entry {
            after: saved,
            change: Change::Replaced(Box::new(from.state)),
            ended: Vec::new(),
        };
        state.apply_entry(&entry, now.steady);
        snapshot.publish(&Arc::new(state));
        snapshot
    }

    /// Returns the time.
    pub(super) fn now(&self) -> Now {
        (self.around.clock)()
    }

    /// The snapshot's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the snapshot's history; empty as long as it has none.
    pub fn epoch(&self) -> &str {
        self.origin.get().map_or("", |origin| &origin.epoch)
    }

    /// The snapshot's origin, or the one with which it would begin.
    pub(super) fn origin(&self) -> &Origin {
        self.origin.get().unwrap_or(&self.draft)
    }

    /// Begins the snapshot's history, unless it has begun.
    pub(super) fn begin(&self, epoch: &str, created: SystemTime) {
        self.origin.get_or_init(|| Origin {
            epoch: epoch.to_owned(),
            created,
        });
    }

    /// Returns whether decisions are answered.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns whether the server expects the snapshot (`--expect-snapshot`).
    pub fn is_expected(&self) -> bool {
        self.expected
    }

    /// The revision of the state that answers.
    pub fn revision(&self) -> i64 {
        self.state.load().revision
    }

    /// Notified whenever the revision grows, and when the snapshot is deleted.
    pub fn moved(&self) -> EventListener {
        self.moved.listen()
    }

    /// The state that answers now. It stays as it is while it is held.
    pub fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Makes a state the one that answers. The caller has the turn. Notifies the waiters for the next
    /// end of a reservation if that is earlier now.
    pub(super) fn publish(&self, state: &Arc<State>) {
        let next = state.reservations.next_expiry();
        let former = self.state.swap(Arc::clone(state));
        let before = former.reservations.next_expiry();
        if next.is_some_and(|next| before.is_none_or(|before| next < before)) {
            self.around.ends_changed.notify(usize::MAX);
        }
    }

    /// Reports if the snapshot became stale or stopped being so, and starts a new tick for the
    /// views of the live state; see [`State::sweep`].
    pub(super) fn sweep(&self, idle_ticks: u64) {
        // The turn is not taken: its holder may wait for a disk, and meanwhile a snapshot grows
        // old.
        if self.is_synced() {
            let tell = |stale| self.tell_stale(stale);
            self.freshness.look(self.now().steady, tell);
        }
        self.state().sweep(idle_ticks);
    }

    pub(super) fn moved_on(&self, revision: i64, applied: Applied, syncs: bool) -> Update {
        if syncs && !self.synced.swap(true, Ordering::AcqRel) {
            self.around.observer.snapshot_changed(&self.name, true);
        }
        self.moved.notify(usize::MAX);
        let counters = &self.around.counters;
        counters::add(&counters.batches, 1);
        counters::add(&counters.changed, applied.changed);
        counters::add(&counters.unchanged, applied.unchanged);
        Update {
            revision,
            epoch: self.epoch().to_owned(),
            applied,
        }
    }

    /// Wakes callers that wait for the snapshot to move, because another snapshot has its name.
    pub(super) fn note_replaced(&self) {
        self.freshness.end();
        self.moved.notify(usize::MAX);
    }

    /// Tells all waiters and the observer that the snapshot is deleted.
    pub(super) fn note_deleted(&self) {
        self.freshness.end();
        self.around.observer.snapshot_deleted(&self.name);
        self.moved.notify(usize::MAX);
    }

    /// Marks the snapshot as deleted if it is not expected and no batch was ever applied. Returns
    /// whether it did.
    pub(super) fn delete_if_unused(&self) -> bool {
        let mut position = self.position.lock();
        let unused = !self.expected && self.revision() == 0;
        position.deleted |= unused;
        unused
    }

    /// Records that a batch of a feed was applied.
    pub(super) fn fed(&self, at: Now, sign: FeedSign) {
        *self.updated.lock() = at;
        let lag = self.now().steady.since(sign.arrived);
        let tell = |stale| self.tell_stale(stale);
        self.freshness.feed(at.steady, (lag, sign.age), tell);
    }

    fn tell_stale(&self, stale: bool) {
        self.around.observer.snapshot_stale(self.name(), stale);
    }

    /// Returns the time since the last batch. `None` when the snapshot has no maximum age.
    pub fn age(&self) -> Option<Duration> {
        self.freshness.age(|| self.now())
    }

    /// Returns whether the snapshot was stale at the last check.
    pub fn is_stale(&self) -> bool {
        self.freshness.is_stale()
    }

    /// Checks that decisions on the snapshot are answered.
    ///
    /// # Errors
    /// [`Error::NotSynced`], and [`Error::Stale`] when decisions on a stale snapshot are refused.
    pub(super) fn check_answers(&self) -> Result<(), Error> {
        if !self.is_synced() {
            return Err(Error::NotSynced(self.name().to_owned()));
        }
        self.freshness.check(self.name(), || self.now())
    }
}

/// The maximum ages of snapshots, and the treatment of older ones.
#[derive(Debug, Clone, Default)]
pub struct MaxAges {
    /// The maximum age of snapshots that are not named; `None` for any age.
    pub default: Option<Duration>,
    /// The maximum ages by name; `None` for any age.
    pub by_name: HashMap<String, Option<Duration>>,
    /// True if decisions on older snapshots are refused.
    pub refuse: bool,
}

/// The time when one snapshot was fed, and its maximum age.
pub struct Freshness {
    max_age: Option<Duration>,
    refuse: bool,
    state: Mutex<FedState>,
}

/// What the last batch said, and what was announced.
struct FedState {
    /// The moment up to which the feed's knowledge was complete.
    fed: Moment,
    /// The time that the batch took from its arrival until it was applied.
    lag: Duration,
    /// The last announcement. It is made under the lock, so that it is true.
    announced: Announced,
}

/// The last announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announced {
    Fresh,
    Stale,
    /// The snapshot is deleted. Nothing is announced after that.
    Deleted,
}

impl Freshness {
    /// The freshness of a snapshot of this name that was fed at this moment.
    pub fn new(name: &str, ages: &MaxAges, fed: Moment) -> Self {
        Self {
            max_age: ages.by_name.get(name).copied().unwrap_or(ages.default),
            refuse: ages.refuse,
            state: Mutex::new(FedState {
                fed,
                lag: Duration::ZERO,
                announced: Announced::Fresh,
            }),
        }
    }

    /// Returns the snapshot's age. `None` when it has no maximum age.
    pub fn age(&self, clock: impl FnOnce() -> Now) -> Option<Duration> {
        self.max_age.map(|_| self.since_fed(clock().steady))
    }

    fn since_fed(&self, now: Moment) -> Duration {
        now.since(self.state.lock().fed)
    }

    /// Returns whether decisions are answered at this age.
    ///
    /// # Errors
    /// [`Error::Stale`] when they are not.
    pub fn check(&self, name: &str, clock: impl FnOnce() -> Now) -> Result<(), Error> {
        let Some(max_age) = self.max_age.filter(|_| self.refuse) else {
            return Ok(());
        };
        let age = self.since_fed(clock().steady);
        if age <= max_age {
            return Ok(());
        }
        Err(Error::Stale {
            snapshot: name.to_owned(),
            age,
            max_age,
        })
    }

    /// Records a batch that took `lag` from its arrival until it was applied, from a feed with
    /// knowledge of this age. Reports if the snapshot became stale or stopped being so.
    pub fn feed(&self, at: Moment, (lag, age): (Duration, Duration), tell: impl FnOnce(bool)) {
        let mut state = self.state.lock();
        (state.fed, state.lag) = (at.before(age), lag);
        drop(state);
        self.look(at, tell);
    }

    /// Returns the time that the last batch took from its arrival until it was applied.
    pub fn lag(&self) -> Duration {
        self.state.lock().lag
    }

    /// Reads the clock, and reports if the snapshot became stale or stopped
    /// being so.
    pub fn look(&self, now: Moment, tell: impl FnOnce(bool)) {
        let Some(max_age) = self.max_age else { return };
        let mut state = self.state.lock();
        let is_stale = now.since(state.fed) > max_age;
        match (state.announced, is_stale) {
            (Announced::Fresh, true) => state.announced = Announced::Stale,
            (Announced::Stale, false) => state.announced = Announced::Fresh,
            _ => return,
        }
        tell(is_stale);
    }

    /// Ends all announcements, because the snapshot is deleted.
    pub fn end(&self) {
        self.state.lock().announced = Announced::Deleted;
    }

    /// Returns whether the snapshot was announced to be stale.
    pub fn is_stale(&self) -> bool {
        self.state.lock().announced == Announced::Stale
    }
}

/// Learns when a snapshot starts or stops being able to answer. It is called in the middle of a
/// change of the snapshot, so it must not wait for anything.
pub trait Observer: Send + Sync {
    /// The snapshot exists; `synced` says whether decisions on it are answered.
    fn snapshot_changed(&self, name: &str, synced: bool);
    /// The snapshot became older than its maximum age, or stopped being so.
    fn snapshot_stale(&self, name: &str, stale: bool) {
        let _ = (name, stale);
    }
    /// The snapshot was deleted.
    fn snapshot_deleted(&self, name: &str);
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn snapshot_changed(&self, _: &str, _: bool) {}
    fn snapshot_deleted(&self, _: &str) {}
}
