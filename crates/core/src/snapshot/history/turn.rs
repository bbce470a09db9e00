//! The turn of a snapshot. A caller that changes a snapshot takes the turn first, plans an entry,
//! records it in the journal and then applies it. Entries of other servers and those that are read
//! back are applied in the same way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;
use uuid::Uuid;

use super::error::Error;
use super::journal::{
    Change, Entry, Journal, JournalError, NewState, OwnedChange, OwnedEntry, SavedSnapshot,
    Standing, Whole,
};
use super::named::{JournalPosition, Origin, Snapshot};
use super::offer::{FeedSign, Update};
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::counters;
use crate::snapshot::state::revision::{Applied, State};

/// The right to change a snapshot. While one caller has it, no other changes the snapshot.
pub(super) struct WriteTurn<'s> {
    pub snapshot: &'s Snapshot,
    pub position: MutexGuard<'s, JournalPosition>,
    /// The state that answers.
    pub live: Arc<State>,
}

/// A recorded entry that is to be applied.
pub(super) struct RecordedStep {
    /// The entry.
    pub entry: OwnedEntry,
    /// The time of the entry.
    pub at: Now,
    /// The moment from which the times of its reservations are measured.
    pub now: Moment,
    /// The sign of a feed, if the entry is one.
    pub feed: Option<FeedSign>,
}

impl RecordedStep {
    /// An entry of this server.
    pub fn own(entry: OwnedEntry, at: Now, feed: Option<FeedSign>) -> Self {
        let now = at.steady;
        Self {
            entry,
            at,
            now,
            feed,
        }
    }
}

/// The consequences of an entry once its state is published.
struct AppliedStep {
    revision: i64,
    moves: bool,
    synced: bool,
    applied: Applied,
    at: Now,
    feed: Option<FeedSign>,
}

impl<'s> WriteTurn<'s> {
    /// Waits for the turn.
    pub fn take(snapshot: &'s Snapshot) -> Self {
        let position = snapshot.position.lock();
        Self {
            snapshot,
            position,
            live: snapshot.state(),
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
            answers: reservations.answers(now),
            ..self.entry().after
        };
        Whole {
            state: Arc::clone(&self.live),
            saved,
        }
    }

    /// An entry that changes nothing. It gets its number when it is recorded.
    pub fn entry(&self) -> OwnedEntry {
        let Origin { epoch, created } = self.snapshot.origin();
        let updated = *self.snapshot.updated.lock();
        OwnedEntry {
            after: SavedSnapshot {
                name: self.snapshot.name().to_owned(),
                epoch: epoch.clone(),
                revision: self.live.revision,
                sequence: 0,
                created: *created,
                updated: updated.wall,
                age: Duration::ZERO,
                synced: self.snapshot.is_synced(),
                defaults: None,
                resource_versions: None,
                last_serial: self.live.reservations.last,
                held: Vec::new(),
                answers: Vec::new(),
            },
            change: OwnedChange::Batch(Arc::default()),
            ended: Vec::new(),
            mark: Uuid::nil(),
        }
    }

    /// Numbers batches and records them in the journal, if there is one, before they are applied.
    ///
    /// # Errors
    /// [`Error::NotStored`]; the entries must not be applied then.
    pub fn record(&mut self, entries: &mut [&mut OwnedEntry]) -> Result<(), Error> {
        self.record_as(entries, |entry| Change::Batch(entry.batch()))
    }

    /// As [`Self::record`], of entries with other changes.
    ///
    /// # Errors
    /// [`Error::NotStored`]; the entries must not be applied then.
    pub fn record_as(
        &mut self,
        entries: &mut [&mut OwnedEntry],
        change: impl Fn(&OwnedEntry) -> Change<'_>,
    ) -> Result<(), Error> {
        let journal = self.snapshot.around.journal.as_deref();
        // A deleted snapshot is not in the journal any more.
        let is_recorded = !entries.is_empty() && !self.position.deleted;
        let Some(journal) = journal.filter(|_| is_recorded) else {
            return Ok(());
        };
        for (entry, sequence) in entries.iter_mut().zip(self.position.sequence + 1..) {
            entry.after.sequence = sequence;
        }
        let recorded = entries.iter().map(|entry| entry.entry(change(entry)));
        let recorded: Vec<Entry<'_>> = recorded.collect();
        let mut appended = journal.append(&recorded);
        if appended == Err(JournalError::OutOfStep) {
            appended = self
                .rewrite(journal)
                .and_then(|()| journal.append(&recorded));
        }
        if appended.is_ok() {
            self.position.sequence += recorded.len() as u64;
            // A doubtful entry with one of these numbers was never recorded.
            let unclaimed = &self.snapshot.unclaimed;
            unclaimed.lock().settle(self.position.sequence, Uuid::nil());
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
            JournalError::UnknownFate(doubt) => doubt.is_untrusted,
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
            journal.append(&[whole.saved.entry(Change::Rewritten(aside))])
        };
        write().inspect_err(|_| journal.drop_aside(aside))
    }

    /// Applies recorded entries, and publishes the state after all of them.
    pub fn apply(&mut self, steps: impl IntoIterator<Item = RecordedStep>) -> Vec<Update> {
        let mut next = State::clone(&self.live);
        let steps = steps.into_iter();
        let steps: Vec<_> = steps
            .map(|step| self.snapshot.apply_to(&mut next, step))
            .collect();
        self.publish(next);
        let done = |step| self.snapshot.note_applied(step);
        steps.into_iter().map(done).collect()
    }

    /// Applies a recorded entry that is no sign of a feed.
    pub fn apply_own(&mut self, entry: OwnedEntry, at: Now) {
        self.apply([RecordedStep::own(entry, at, None)]);
    }

    /// Makes a state the one that answers.
    pub fn publish(&mut self, state: State) {
        self.live = Arc::new(state);
        self.snapshot.publish(&self.live);
    }

    /// Deletes the snapshot.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then it is not deleted.
    pub fn delete(&mut self) -> Result<(), Error> {
        let mut entry = self.entry();
        self.record_as(&mut [&mut entry], |_| Change::Deleted)?;
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
    pub(super) fn apply_entry(&mut self, entry: OwnedEntry, now: Moment) -> Applied {
        let OwnedEntry {
            after,
            change,
            ended,
            ..
        } = entry;
        let defaults = after.defaults;
        let read = after.resource_versions;
        let applied = match change {
            OwnedChange::Batch(batch) => {
                let batch = self.with_reservations(batch, &after.held, &ended);
                self.reservations.put_all(after.held, after.answers, now);
                self.reservations.remove_all(&ended);
                if let Some(defaults) = defaults {
                    self.shared.defaults = defaults;
                }
                if let Some(read) = read {
                    self.resource_versions = read;
                }
                match after.revision == self.revision {
                    true => Applied::default(),
                    false => self.apply(&batch, after.revision),
                }
            }
            OwnedChange::Replaced(new) => {
                let NewState { state, applied, .. } = *new;
                let former = std::mem::replace(self, state);
                let defaults = defaults.unwrap_or_else(|| Arc::clone(former.defaults()));
                self.reservations = former.reservations.clone();
                self.reservations.put_all(after.held, after.answers, now);
                self.reservations.remove_all(&ended);
                self.add_reserved_pods();
                self.adopt(after.revision, defaults, &former);
                self.resource_versions = read.unwrap_or_default();
                applied
            }
            OwnedChange::Deleted => Applied::default(),
        };
        self.reservations.last = self.reservations.last.max(after.last_serial);
        applied
    }
}

impl Snapshot {
    /// Applies an entry to a state: its objects, and the reservations that begin and end with it.
    fn apply_to(&self, next: &mut State, step: RecordedStep) -> AppliedStep {
        let RecordedStep {
            entry,
            at,
            now,
            feed,
        } = step;
        let before = next.revision;
        let (synced, revision) = (entry.after.synced, entry.after.revision);
        if matches!(entry.change, OwnedChange::Replaced(_)) {
            counters::add(&self.around.counters.replaces, 1);
        }
        let ended = entry.ended.len();
        let mut applied = next.apply_entry(entry, now);
        if feed.is_some() {
            // The ends of reservations are no changes of the caller.
            applied.changed = applied.changed.saturating_sub(ended);
        }
        AppliedStep {
            revision,
            moves: revision != before,
            synced,
            applied,
            at,
            feed,
        }
    }

    /// Tells everyone about an entry whose state is published.
    fn note_applied(&self, step: AppliedStep) -> Update {
        if !step.moves {
            return Update {
                revision: step.revision,
                epoch: self.epoch().to_owned(),
                applied: step.applied,
            };
        }
        match step.feed {
            Some(feed) => self.fed(step.at, feed),
            None => *self.updated.lock() = step.at,
        }
        self.moved_on(step.revision, step.applied, step.synced)
    }

    /// The whole content of the snapshot. `mark` gets its position in the journal, and may refuse
    /// it. `None` if it does, or if the snapshot is deleted.
    pub fn whole<M>(&self, mark: impl FnOnce(Standing<'_>) -> Option<M>) -> Option<(Whole, M)> {
        let turn = WriteTurn::take_unless_deleted(self)?;
        let mark = mark(turn.standing())?;
        Some((turn.whole(), mark))
    }
}
