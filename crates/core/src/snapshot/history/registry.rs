//! The named snapshots.

use std::collections::HashSet;
use std::sync::Arc;

use dashmap::DashMap;
use event_listener::EventListener;
use parking_lot::RwLock;

use super::journal::{Journal, NewState, Restoring, SavedSnapshot};
use super::named::{MaxAges, Observer, Snapshot, Surroundings};
use super::offer::{Error, Fence, Offer, Update};
use super::replacing::Staged;
use super::turn::WriteTurn;
use crate::account::{Account, Purpose};
use crate::limits::{Limit, Limits};
use crate::snapshot::clock::{self, Moment, Now};
use crate::snapshot::counters::SnapshotCounters;

/// The named snapshots.
pub struct Registry {
    limits: Limits,
    pub(super) around: Arc<Surroundings>,
    pub(super) snapshots: DashMap<String, Arc<Snapshot>>,
    /// Names of snapshots that are synced only from their first replace on.
    pub(super) expected: RwLock<HashSet<String>>,
}

impl Registry {
    /// An empty registry.
    pub fn new(limits: Limits, observer: Arc<dyn Observer>) -> Self {
        Self::with_clock(limits, observer, clock::system())
    }

    /// An empty registry with a clock of its own.
    pub fn with_clock<N: Into<Now>>(
        limits: Limits,
        observer: Arc<dyn Observer>,
        clock: impl Fn() -> N + Send + Sync + 'static,
    ) -> Self {
        let around = Arc::new(Surroundings {
            account: Account::unlimited(),
            max_ages: MaxAges::default(),
            observer,
            clock: Arc::new(move || clock().into()),
            ends_changed: Arc::default(),
            journal: None,
            counters: Arc::default(),
        });
        Self {
            limits,
            around,
            snapshots: DashMap::new(),
            expected: RwLock::default(),
        }
    }

    /// The same registry with limits on how old snapshots may get.
    #[must_use]
    pub fn with_max_ages(mut self, max_ages: MaxAges) -> Self {
        Arc::make_mut(&mut self.around).max_ages = max_ages;
        self
    }

    /// The registry with a journal, which records every step before it is taken.
    #[must_use]
    pub fn with_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        Arc::make_mut(&mut self.around).journal = Some(journal);
        self
    }

    /// The registry with an account that says whether there is memory. Without one only the limits by
    /// number hold.
    #[must_use]
    pub fn with_account(mut self, account: Arc<Account>) -> Self {
        Arc::make_mut(&mut self.around).account = account;
        self
    }

    /// The account that says whether there is memory.
    pub fn account(&self) -> &Arc<Account> {
        &self.around.account
    }

    /// Returns the time.
    pub fn now(&self) -> Now {
        (self.around.clock)()
    }

    /// A snapshot of the journal, without objects yet.
    pub fn restoring(&self, saved: SavedSnapshot) -> Restoring {
        let state = self.new_state();
        Restoring { saved, state }
    }

    /// Restores a snapshot of the journal. It is meant for the start, before any question.
    pub fn restore(&self, restoring: Restoring) {
        let name = restoring.saved.name.clone();
        let expected = self.expected.read().contains(&name);
        let snapshot = Snapshot::restored(restoring, expected, Arc::clone(&self.around));
        let synced = snapshot.is_synced();
        self.snapshots.insert(name.clone(), Arc::new(snapshot));
        self.around.observer.snapshot_changed(&name, synced);
    }

    /// An empty state for objects that were accepted elsewhere, or that are read back.
    pub fn new_state(&self) -> NewState {
        NewState::new(self.around.empty_state())
    }

    /// Returns whether others append to the journal, too.
    pub fn is_shared(&self) -> bool {
        self.around.is_shared()
    }

    /// Applies entries to a snapshot that others have appended; with `all` every one that was
    /// acknowledged before. The snapshot is created if needed, and is gone afterwards if an entry
    /// deletes it. Limits do not apply: they were checked where the entries were accepted.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub fn catch_up(&self, name: &str, all: bool) -> Result<(), Error> {
        loop {
            let snapshot = self.found_or_created(name);
            let mut turn = WriteTurn::take(&snapshot);
            let caught_up = turn.catch_up(all);
            let is_over = turn.position.deleted;
            drop(turn);
            if !is_over {
                self.remove_if_unused(&snapshot);
                return caught_up;
            }
            self.remove(&snapshot);
        }
    }

    /// Applies what others have appended to a snapshot that is not here, if there is anything.
    pub fn look_up(&self, name: &str) {
        let journal = self.around.journal.as_ref();
        if journal.is_some_and(|journal| journal.has(name)) {
            // Whoever follows the journal reports its faults.
            let _ = self.catch_up(name, true);
        }
    }

    /// A state to be built aside. [`Self::replace`] swaps it in as the state of a snapshot.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::NotStored`].
    pub fn stage(&self, name: &str) -> Result<Staged, Error> {
        let (journal, replaced) = (self.around.journal.as_ref(), self.get(name).ok());
        Staged::new(self.around.empty_state(), journal, replaced.as_ref())
    }

    /// The limits on what clients can make grow.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the work of all snapshots since the registry was made.
    pub fn counters(&self) -> &SnapshotCounters {
        &self.around.counters
    }

    /// Creates a snapshot that is synced only from its first replace on, so
    /// that a restarted, still empty server never answers for it.
    pub fn expect(&self, name: &str) {
        self.expected.write().insert(name.to_owned());
        self.found_or_created(name);
        self.around.observer.snapshot_changed(name, false);
    }

    /// A snapshot by name, which is created if needed, whatever the limits.
    fn found_or_created(&self, name: &str) -> Arc<Snapshot> {
        let create = || {
            let expected = self.expected.read().contains(name);
            let around = Arc::clone(&self.around);
            Arc::new(Snapshot::new(name, expected, around))
        };
        let entry = self.snapshots.entry(name.to_owned());
        Arc::clone(&entry.or_insert_with(create))
    }

    /// A snapshot by name.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn get(&self, name: &str) -> Result<Arc<Snapshot>, Error> {
        let found = self
            .snapshots
            .get(name)
            .map(|snapshot| Arc::clone(&snapshot));
        found.ok_or_else(|| Error::NotFound(name.to_owned()))
    }

    /// A snapshot by name that answers decisions.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotSynced`] and [`Error::Stale`].
    pub fn get_synced(&self, name: &str) -> Result<Arc<Snapshot>, Error> {
        let snapshot = self.get(name)?;
        snapshot.check_answers()?;
        Ok(snapshot)
    }

    /// Checks ages, and starts a new tick for all views: drops views that were not used for
    /// `idle_ticks` ticks, and more while views take too much room. It is meant to be called at a
    /// steady pace.
    pub fn sweep(&self, idle_ticks: u64) {
        for snapshot in self.list("") {
            snapshot.sweep(idle_ticks);
        }
    }

    /// Ends the reservations of all snapshots whose time is over, as
    /// [`Snapshot::end_expired`] does.
    ///
    /// # Errors
    /// [`Error::NotStored`], of the first snapshot where it could not be
    /// recorded.
    pub fn end_expired(&self) -> Result<(), Error> {
        let all = self.list("");
        let ended = all.iter().map(|s| s.end_expired());
        ended.fold(Ok(()), Result::and)
    }

    /// Notified when [`Snapshot::until_next_end`] of a snapshot becomes shorter other than by the
    /// passing of time.
    pub fn ends_changed(&self) -> EventListener {
        self.around.ends_changed.listen()
    }

    /// All snapshots after `name`, ascending by name.
    pub fn list(&self, after: &str) -> Vec<Arc<Snapshot>> {
        let all = self
            .snapshots
            .iter()
            .filter(|entry| entry.key().as_str() > after);
        let mut all: Vec<_> = all.map(|entry| Arc::clone(entry.value())).collect();
        all.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// Applies a batch to the live state of a snapshot, which is created if needed.
    ///
    /// # Errors
    /// [`Error::Superseded`], [`Error::RevisionMismatch`], [`Error::OverLimit`] and
    /// [`Error::NotStored`]; then nothing was changed.
    pub fn update(&self, name: &str, offer: Offer) -> Result<Update, Error> {
        let mut outcomes = self.update_in_order(name, Arc::new([offer]))?;
        outcomes.pop().expect("every offer has an outcome")
    }

    /// Applies batches one after another, each like [`Self::update`], until one
    /// is refused. Returns the results up to that one. A journal takes them
    /// together.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when the snapshot cannot be created.
    pub fn update_in_order(
        &self,
        name: &str,
        offers: Arc<[Offer]>,
    ) -> Result<Vec<Result<Update, Error>>, Error> {
        loop {
            let snapshot = self.get_or_create(name)?;
            if let Some(outcomes) = snapshot.commit(Arc::clone(&offers), &self.limits) {
                if outcomes.iter().any(Result::is_err) {
                    self.remove_if_unused(&snapshot);
                }
                return Ok(outcomes);
            }
            // If another server deleted the snapshot, it is still in the map here.
            self.remove(&snapshot);
        }
    }

    /// Replaces the state of a snapshot by a new one. The snapshot is created if needed. It must
    /// have this revision, and the right must be held.
    ///
    /// # Errors
    /// [`Error::Superseded`], [`Error::RevisionMismatch`], [`Error::OverLimit`] and
    /// [`Error::NotStored`]; then nothing was changed.
    pub fn replace(
        &self,
        name: &str,
        staged: Staged,
        only_if: (Option<i64>, Option<&Fence>),
        arrived: Moment,
    ) -> Result<Update, Error> {
        loop {
            let snapshot = self.get_or_create(name)?;
            let replaced = snapshot.replace(&staged, only_if, arrived);
            if replaced.is_err() {
                self.remove_if_unused(&snapshot);
            }
            // `None` means that the snapshot was deleted meanwhile. The next round looks for
            // another one.
            if let Some(replaced) = replaced.transpose() {
                if replaced.is_ok() {
                    staged.keep();
                }
                return replaced;
            }
            self.remove(&snapshot);
        }
    }

    /// Removes a snapshot whose first batch was refused: it never existed.
    fn remove_if_unused(&self, snapshot: &Arc<Snapshot>) {
        if snapshot.delete_if_unused() {
            self.remove(snapshot);
        }
    }

    fn get_or_create(&self, name: &str) -> Result<Arc<Snapshot>, Error> {
        if let Ok(snapshot) = self.get(name) {
            return Ok(snapshot);
        }
        let count = self.snapshots.len() + 1;
        self.limits.check(Limit::Snapshots, count)?;
        self.around.account.check(Purpose::Objects, 0)?;
        Ok(self.found_or_created(name))
    }

    /// Deletes a snapshot; with an epoch, only if the snapshot has that epoch.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::EpochMismatch`] and [`Error::NotStored`].
    pub fn delete(&self, name: &str, epoch: &str) -> Result<(), Error> {
        let snapshot = self.get(name)?;
        if !epoch.is_empty() && snapshot.epoch() != epoch {
            return Err(Error::EpochMismatch {
                snapshot: name.to_owned(),
                expected: epoch.to_owned(),
                actual: snapshot.epoch().to_owned(),
            });
        }
        let deleted = WriteTurn::take(&snapshot).attempt(WriteTurn::delete)?;
        self.remove(&snapshot);
        if deleted.is_none() {
            return Err(Error::NotFound(name.to_owned()));
        }
        Ok(())
    }

    pub(super) fn remove(&self, snapshot: &Arc<Snapshot>) {
        let same = |_: &String, other: &Arc<Snapshot>| Arc::ptr_eq(snapshot, other);
        let gone = self.snapshots.remove_if(snapshot.name(), same);
        // A large snapshot is dropped when the map is not locked any more.
        drop(gone);
    }
}
