//! The turn of a snapshot. A caller that changes a snapshot takes the turn first, records each
//! change in the journal and then applies it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use uuid::Uuid;

use super::error::Error;
use super::journal::{Change, Entry, Journal, JournalError, SavedSnapshot, Standing, Whole};
use super::named::{JournalPosition, Origin, Snapshot};
use super::offer::Update;
use crate::snapshot::clock::Now;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::Serial;
use crate::snapshot::state::shards::State;

/// The right to change a snapshot. While one caller has it, no other changes the snapshot.
pub(super) struct WriteTurn<'s> {
    pub snapshot: &'s Snapshot,
    pub position: MutexGuard<'s, JournalPosition>,
    /// The state that answers.
    pub live: Arc<State>,
}

impl<'s> WriteTurn<'s> {
    /// Waits for the turn.
    pub fn take(snapshot: &'s Snapshot) -> Self {
        let position = snapshot.position.lock();
        Self {
            snapshot,
            position,
            live: snapshot.live(),
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

    /// A copy of everything.
    pub fn whole(&self) -> Whole {
        let now = self.trust_clock().ok().map(|()| self.snapshot.now().steady);
        let (entry, reservations) = (self.entry(), self.snapshot.reservation_table());
        let frozen = self.live.freeze(&self.position);
        let saved = SavedSnapshot {
            name: entry.snapshot.to_owned(),
            epoch: entry.epoch.to_owned(),
            revision: entry.revision,
            sequence: self.position.sequence,
            created: entry.created,
            updated: entry.updated,
            synced: entry.synced,
            defaults: Some(Arc::clone(frozen.defaults())),
            resource_versions: Some(self.snapshot.resource_versions()),
            last_serial: entry.last_serial,
            held: reservations.entries(now),
            answers: reservations.answers(now),
        };
        Whole { frozen, saved }
    }

    /// An entry that changes nothing. It gets its number when it is recorded.
    pub fn entry(&self) -> Entry<'s> {
        Entry {
            snapshot: self.snapshot.name(),
            epoch: &self.snapshot.origin().epoch,
            revision: self.live.revision(),
            sequence: 0,
            created: self.snapshot.origin().created,
            updated: self.snapshot.updated.lock().wall,
            synced: self.snapshot.is_synced(),
            change: Change::Batch(None),
            defaults: None,
            resource_versions: None,
            last_serial: self.snapshot.reservation_table().last,
            held: &[],
            answers: &[],
            ended: &[],
        }
    }

    /// Numbers entries and records them in the journal, if there is one, before
    /// they are applied.
    ///
    /// # Errors
    /// [`Error::NotStored`]; the entries must not be applied then.
    pub fn record(&mut self, mut entries: Vec<Entry<'_>>) -> Result<(), Error> {
        let journal = self.snapshot.around.journal.as_deref();
        // A deleted snapshot is not in the journal any more.
        let is_recorded = !entries.is_empty() && !self.position.deleted;
        let Some(journal) = journal.filter(|_| is_recorded) else {
            return Ok(());
        };
        for (entry, sequence) in entries.iter_mut().zip(self.position.sequence + 1..) {
            entry.sequence = sequence;
        }
        let mut appended = journal.append(&entries);
        if appended == Err(JournalError::OutOfStep) {
            appended = self
                .rewrite(journal)
                .and_then(|()| journal.append(&entries));
        }
        if appended.is_ok() {
            self.position.sequence += entries.len() as u64;
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
            for batch in whole.frozen.batches() {
                journal.write_aside(aside, &batch)?;
            }
            journal.append(&[whole.saved.entry(Change::Rewritten(aside))])
        };
        write().inspect_err(|_| journal.drop_aside(aside))
    }

    /// Applies a recorded batch of the snapshot's own making.
    pub fn apply_own(&self, batch: &Batch, revision: i64, now: Now) -> Update {
        let applied = self.live.apply(batch, None, revision);
        *self.snapshot.updated.lock() = now;
        self.snapshot.moved_on(revision, applied, false)
    }

    /// Ends reservations, after that was recorded.
    pub fn apply_ends(&self, ended: &[Serial], revision: i64, now: Now) -> Update {
        let deletions = Batch::trusted(self.snapshot.reservation_table().deletions(ended));
        let update = self.apply_own(&deletions, revision, now);
        self.snapshot.forget(ended);
        update
    }

    /// Deletes the snapshot.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then it is not deleted.
    pub fn delete(&mut self) -> Result<(), Error> {
        self.record(vec![Entry {
            change: Change::Deleted,
            ..self.entry()
        }])?;
        self.position.deleted = true;
        self.snapshot.note_deleted();
        Ok(())
    }
}

impl Snapshot {
    /// Copies the whole snapshot. `mark` gets the journal position of the copy, and may refuse it.
    /// `None` if it does, or if the snapshot is deleted.
    pub fn whole<M>(&self, mark: impl FnOnce(Standing<'_>) -> Option<M>) -> Option<(Whole, M)> {
        let turn = WriteTurn::take_unless_deleted(self)?;
        let mark = mark(turn.standing())?;
        Some((turn.whole(), mark))
    }

    /// Calls a function with a copy of the whole snapshot and its position in the journal. The
    /// snapshot does not change meanwhile. `None` when it is deleted.
    pub fn with_whole<T>(&self, act: impl FnOnce(Standing<'_>, Whole) -> T) -> Option<T> {
        let turn = WriteTurn::take_unless_deleted(self)?;
        Some(act(turn.standing(), turn.whole()))
    }
}
