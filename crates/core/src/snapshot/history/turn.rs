//! The turn of a snapshot. A caller that changes a snapshot takes the turn first, plans an entry,
//! applies it to a clone of the state, records it in the journal, and then publishes the clone.
//! Entries of other servers and those that are read back are applied in the same way: in order, and
//! checked only that they fit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::journal::{Change, Entry, Journal, JournalError, SavedSnapshot, Standing, Whole};
use super::named::{JournalPosition, Origin, Snapshot};
use super::offer::{Error, FeedSign, Update};
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::counters;
use crate::snapshot::state::revision::{Applied, State};

/// The right to change a snapshot. While one caller has it, no other changes the snapshot.
pub(super) struct WriteTurn<'s> {
    pub snapshot: &'s Snapshot,
    pub position: MutexGuard<'s, JournalPosition>,
    /// The state that answers.
    pub live: Arc<State>,
    /// True if every entry that others had appended when the turn began has been read.
    knows_all: bool,
}

/// An entry that was applied to the next state. It takes effect once that is published.
pub(super) struct Step {
    /// The entry.
    pub entry: Entry,
    at: Now,
    /// The sign of a feed, if the entry is one.
    feed: Option<FeedSign>,
    applied: Applied,
    /// True if it leads to another revision.
    moves: bool,
}

impl Step {
    /// Applies an entry of this time to the next state. The times of its reservations are measured
    /// from `now`.
    pub fn apply(
        next: &mut State,
        entry: Entry,
        at: Now,
        now: Moment,
        feed: Option<FeedSign>,
    ) -> Self {
        let before = next.revision;
        let mut applied = next.apply_entry(&entry, now);
        if feed.is_some() {
            // The ends of reservations are no changes of the caller.
            applied.changed = applied.changed.saturating_sub(entry.ended.len());
        }
        Self {
            moves: next.revision != before,
            entry,
            at,
            feed,
            applied,
        }
    }
}

impl<'s> WriteTurn<'s> {
    /// Waits for the turn.
    pub fn take(snapshot: &'s Snapshot) -> Self {
        let position = snapshot.position.lock();
        Self {
            snapshot,
            position,
            live: snapshot.state(),
            knows_all: !snapshot.around.is_shared(),
        }
    }

    /// Waits for the turn of a snapshot; `None` when it is deleted.
    pub fn take_unless_deleted(snapshot: &'s Snapshot) -> Option<Self> {
        Some(Self::take(snapshot)).filter(|turn| !turn.position.deleted)
    }

    /// The position of the snapshot in its journal.
    pub fn standing(&self) -> Standing<'s> {
        Standing {
            snapshot: self.snapshot.name(),
            epoch: self.snapshot.epoch(),
            sequence: self.position.sequence,
        }
    }

    /// The whole content of the snapshot.
    pub fn whole(&self) -> Whole {
        let now = self.snapshot.now().steady;
        let reservations = &self.live.reservations;
        let updated = *self.snapshot.updated.lock();
        let saved = SavedSnapshot {
            sequence: self.position.sequence,
            age: now.since(updated.steady),
            defaults: Some(Arc::clone(self.live.defaults())),
            resource_versions: Some(Arc::clone(self.live.resource_versions())),
            held: reservations.entries(now),
            ..self.entry().after
        };
        Whole {
            state: Arc::clone(&self.live),
            saved,
        }
    }

    /// An entry that changes nothing. It gets its number when it is recorded.
    pub fn entry(&self) -> Entry {
        self.entry_after(&self.live)
    }

    /// An entry that changes nothing in a state which follows the live one.
    pub fn entry_after(&self, state: &State) -> Entry {
        let Origin { epoch, created } = self.snapshot.origin();
        let updated = *self.snapshot.updated.lock();
        Entry {
            after: SavedSnapshot {
                name: self.snapshot.name().to_owned(),
                epoch: epoch.clone(),
                revision: state.revision,
                sequence: 0,
                created: *created,
                updated: updated.wall,
                age: Duration::ZERO,
                synced: self.snapshot.is_synced(),
                defaults: None,
                resource_versions: None,
                last_serial: state.reservations.last,
                held: Vec::new(),
            },
            change: Change::Batch(Arc::default()),
            ended: Vec::new(),
        }
    }

    /// Records an entry of this server and applies it.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then nothing is changed.
    pub fn change(
        &mut self,
        entry: Entry,
        at: Now,
        feed: Option<FeedSign>,
    ) -> Result<Update, Error> {
        let mut next = State::clone(&self.live);
        let step = Step::apply(&mut next, entry, at, at.steady, feed);
        let mut updates = self.commit(Arc::new(next), vec![step])?;
        Ok(updates.pop().expect("each step has an update"))
    }

    /// Records steps, and publishes the state after them.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then nothing is changed.
    pub fn commit(&mut self, next: Arc<State>, mut steps: Vec<Step>) -> Result<Vec<Update>, Error> {
        self.record(steps.iter_mut().map(|step| &mut step.entry).collect())?;
        Ok(self.publish(next, steps))
    }

    /// Numbers entries and records them in the journal, if there is one.
    fn record(&mut self, mut entries: Vec<&mut Entry>) -> Result<(), Error> {
        let journal = self.snapshot.around.journal.as_deref();
        // A deleted snapshot is not in the journal any more.
        let is_recorded = !entries.is_empty() && !self.position.deleted;
        let Some(journal) = journal.filter(|_| is_recorded) else {
            return Ok(());
        };
        for (entry, sequence) in entries.iter_mut().zip(self.position.sequence + 1..) {
            entry.after.sequence = sequence;
        }
        let recorded: Vec<&Entry> = entries.into_iter().map(|entry| &*entry).collect();
        let mut appended = journal.append(&recorded);
        if appended == Err(JournalError::OutOfStep) {
            appended = self
                .rewrite(journal)
                .and_then(|()| journal.append(&recorded));
        }
        if appended.is_ok() {
            self.position.sequence += recorded.len() as u64;
            let Origin { epoch, created } = self.snapshot.origin();
            self.snapshot.begin(epoch, *created);
        }
        appended.map_err(|error| self.not_stored(error))
    }

    /// The error for an entry that was not recorded. A snapshot that cannot be trusted stops
    /// answering.
    pub fn not_stored(&self, error: JournalError) -> Error {
        let is_untrusted = match &error {
            JournalError::Untrusted(_) => true,
            JournalError::UnknownFate { is_untrusted, .. } => *is_untrusted,
            _ => false,
        };
        if is_untrusted && self.snapshot.synced.swap(false, Ordering::AcqRel) {
            let observer = &self.snapshot.around.observer;
            observer.snapshot_changed(self.snapshot.name(), false);
        }
        Error::NotStored(error)
    }

    /// Writes the whole snapshot again, as of the last entry.
    fn rewrite(&self, journal: &dyn Journal) -> Result<(), JournalError> {
        let aside = journal.open_aside()?;
        let whole = self.whole();
        let write = || {
            for batch in whole.state.batches() {
                journal.write_aside(aside, &batch)?;
            }
            journal.append(&[&Entry {
                after: whole.saved,
                change: Change::Rewritten(aside),
                ended: Vec::new(),
            }])
        };
        write().inspect_err(|_| journal.drop_aside(aside))
    }

    /// Makes the state after recorded steps the one that answers, and tells everyone.
    pub fn publish(&mut self, next: Arc<State>, steps: Vec<Step>) -> Vec<Update> {
        self.live = next;
        self.snapshot.publish(&self.live);
        let told = |step| self.snapshot.note_applied(step);
        steps.into_iter().map(told).collect()
    }

    /// Deletes the snapshot.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then it is not deleted.
    pub fn delete(&mut self) -> Result<(), Error> {
        let mut entry = self.entry();
        entry.change = Change::Deleted;
        self.record(vec![&mut entry])?;
        self.note_deleted();
        Ok(())
    }

    /// Notes that the snapshot is deleted.
    pub fn note_deleted(&mut self) {
        self.position.deleted = true;
        self.snapshot.note_deleted();
    }
}

impl State {
    /// The one way in which an entry changes a state, whoever made it.
    pub(super) fn apply_entry(&mut self, entry: &Entry, now: Moment) -> Applied {
        let Entry {
            after,
            change,
            ended,
        } = entry;
        let applied = match change {
            Change::Batch(batch) => {
                let batch = self.with_reservations(batch, &after.held, ended);
                self.reservations.put_all(&after.held, now);
                self.reservations.remove_all(ended);
                if let Some(defaults) = &after.defaults {
                    self.shared.defaults = Arc::clone(defaults);
                }
                if let Some(read) = &after.resource_versions {
                    self.resource_versions = Arc::clone(read);
                }
                match after.revision == self.revision {
                    true => Applied::default(),
                    false => self.apply(&batch, after.revision),
                }
            }
            Change::Replaced(new) => {
                let former = std::mem::replace(self, new.state.clone());
                let defaults = after.defaults.as_ref().unwrap_or(former.defaults());
                self.reservations = former.reservations.clone();
                self.reservations.put_all(&after.held, now);
                self.reservations.remove_all(ended);
                self.add_reserved_pods();
                self.adopt(after.revision, Arc::clone(defaults), &former);
                self.resource_versions = after.resource_versions.clone().unwrap_or_default();
                new.applied
            }
            Change::Rewritten(_) | Change::Deleted => Applied::default(),
        };
        self.reservations.last = self.reservations.last.max(after.last_serial);
        applied
    }
}

impl Snapshot {
    /// Tells everyone about an entry whose state is published.
    fn note_applied(&self, step: Step) -> Update {
        let after = &step.entry.after;
        if matches!(step.entry.change, Change::Replaced(_)) {
            counters::add(&self.around.counters.replaces, 1);
        }
        if !step.moves {
            return Update {
                revision: after.revision,
                epoch: self.epoch().to_owned(),
                applied: step.applied,
            };
        }
        match step.feed {
            Some(feed) => self.fed(step.at, feed),
            None => *self.updated.lock() = step.at,
        }
        self.moved_on(after.revision, step.applied, after.synced)
    }

    /// Calls a function with the whole content of the snapshot and its position in the journal. The
    /// snapshot does not change meanwhile. `None` when it is deleted.
    pub fn with_whole<T>(&self, act: impl FnOnce(Standing<'_>, Whole) -> T) -> Option<T> {
        let turn = WriteTurn::take_unless_deleted(self)?;
        Some(act(turn.standing(), turn.whole()))
    }
}

/// The number of attempts at a change while others come first.
const ATTEMPTS: usize = 32;

impl WriteTurn<'_> {
    /// Applies entries that others have appended to the journal: those that have arrived, or with
    /// `all` every one that was acknowledged before. The snapshot may be over afterwards.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub fn catch_up(&mut self, all: bool) -> Result<(), Error> {
        let snapshot = self.snapshot;
        let journal = snapshot.around.journal.as_deref();
        let Some(journal) = journal.filter(|it| it.is_shared()) else {
            return Ok(());
        };
        while !self.position.deleted {
            let missed = journal.missed(self.standing(), all);
            let missed = missed.map_err(|error| self.not_stored(error))?;
            if let Err(why) = follow(self, missed.entries) {
                journal.diverged(self.snapshot.name(), &why);
                return Err(self.not_stored(JournalError::Untrusted(why)));
            }
            if missed.is_over && !self.position.deleted {
                self.position.deleted = true;
                snapshot.note_replaced();
            }
            if !missed.has_more {
                break;
            }
        }
        Ok(())
    }

    /// Attempts a change until no other server comes first. Each attempt is made on everything that
    /// others have appended. If an attempt recorded an entry, that entry comes right after, so the
    /// result is final. An attempt that recorded nothing may have seen an older state, so its
    /// result is final only if no entry was missed. `None` when the snapshot is over.
    ///
    /// # Errors
    /// Those of the attempt, [`Error::NotStored`], and [`Error::Contended`] when others came first
    /// too often. An attempt whose entry was not recorded for another reason is the last one: where it
    /// may still be recorded, the next one might report its own work as that of others.
    pub fn attempt<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.catch_up(false)?;
        for _ in 0..ATTEMPTS {
            if self.position.deleted {
                return Ok(None);
            }
            let before = self.position.sequence;
            let result = attempt(self);
            let is_final = self.knows_all || self.position.sequence != before;
            match &result {
                Err(error) if error.is_behind() => self.catch_up(false)?,
                Err(Error::NotStored(_)) => return result.map(Some),
                _ if is_final => return result.map(Some),
                _ => {
                    self.catch_up(true)?;
                    self.knows_all = true;
                }
            }
        }
        Err(Error::Contended(self.snapshot.name().to_owned()))
    }
}

/// Applies entries, and publishes the state after them. An entry that ends the snapshot is the last
/// one.
///
/// # Errors
/// The reason why an entry does not fit; then only those before it are applied.
pub(super) fn follow(turn: &mut WriteTurn<'_>, entries: Vec<Entry>) -> Result<(), String> {
    if entries.is_empty() {
        return Ok(());
    }
    let snapshot = turn.snapshot;
    let mut next = State::clone(&turn.live);
    let (mut steps, mut is_deleted, mut fit) = (Vec::new(), false, Ok(()));
    for entry in entries {
        fit = check(turn, next.revision, &entry);
        if fit.is_err() {
            break;
        }
        let after = &entry.after;
        snapshot.begin(&after.epoch, after.created);
        turn.position.sequence = after.sequence;
        if matches!(entry.change, Change::Deleted) {
            is_deleted = true;
            break;
        }
        let now = snapshot.now();
        let at = now.back_to(after.updated, after.age);
        let feed = entry.is_fed(next.revision).then_some(FeedSign {
            arrived: at.steady,
            age: Duration::ZERO,
        });
        steps.push(Step::apply(&mut next, entry, at, now.steady, feed));
    }
    turn.publish(Arc::new(next), steps);
    if is_deleted {
        turn.note_deleted();
    }
    fit
}

fn check(turn: &WriteTurn<'_>, revision: i64, entry: &Entry) -> Result<(), String> {
    let snapshot = turn.snapshot;
    let (epoch, sequence) = (snapshot.epoch(), turn.position.sequence);
    let after = &entry.after;
    // Without an epoch this is the first entry of all.
    if epoch.is_empty() {
        return Ok(());
    }
    if epoch != after.epoch {
        return Err(format!("an entry is of epoch {}, not {epoch}", after.epoch));
    }
    if after.sequence != sequence + 1 {
        let found = after.sequence;
        return Err(format!("entry {found} comes after entry {sequence}"));
    }
    let steps = after.revision - revision;
    if !(0..=1).contains(&steps) {
        return Err(format!("an entry moves the revision by {steps}"));
    }
    Ok(())
}

impl Entry {
    /// Returns whether the entry is a sign of a feed: it has effects that reservations alone do not
    /// have.
    fn is_fed(&self, before: i64) -> bool {
        let after = &self.after;
        let is_of_reservations = !(after.held.is_empty() && self.ended.is_empty());
        let has_objects = match &self.change {
            Change::Batch(batch) => !batch.is_empty(),
            Change::Replaced(_) => true,
            Change::Rewritten(_) | Change::Deleted => false,
        };
        after.revision != before && (has_objects || after.defaults.is_some() || !is_of_reservations)
    }
}

impl Snapshot {
    /// [Attempts](WriteTurn::attempt) a change of reservations.
    pub(super) fn in_turn<T>(
        &self,
        attempt: impl FnMut(&mut WriteTurn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let done = WriteTurn::take(self).attempt(attempt)?;
        done.ok_or_else(|| Error::NotFound(self.name().to_owned()))
    }
}
