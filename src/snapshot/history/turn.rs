//! The turn of a snapshot. A caller that changes a snapshot takes it first,
//! records each change in the journal and then applies it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::error::Error;
use super::journal::{Change, Entry, Journal, JournalError};
use super::named::{JournalPosition, Snapshot};
use super::offer::Update;
use crate::proto::v1::change::Object;
use crate::snapshot::clock::Now;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::Serial;
use crate::snapshot::state::frozen::Frozen;
use crate::snapshot::state::shards::State;

/// How many objects are copied at a time when a snapshot is rewritten.
const REWRITE_OBJECTS: usize = 10_000;

/// The right to change a snapshot. Nobody else changes it meanwhile.
pub(super) struct WriteTurn<'s> {
    snapshot: &'s Snapshot,
    position: MutexGuard<'s, JournalPosition>,
    live: Arc<State>,
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

    /// The snapshot.
    pub fn snapshot(&self) -> &'s Snapshot {
        self.snapshot
    }

    /// The state that answers.
    pub fn live(&self) -> &Arc<State> {
        &self.live
    }

    /// A copy of the state that answers.
    pub fn freeze(&self) -> Frozen {
        self.live.freeze(&self.position)
    }

    /// An entry that changes nothing. It has no number before it is recorded.
    pub fn entry(&self) -> Entry<'s> {
        Entry {
            snapshot: self.snapshot.name(),
            epoch: self.snapshot.epoch(),
            revision: self.live.revision(),
            sequence: 0,
            created: self.snapshot.created,
            updated: self.snapshot.updated.lock().wall,
            synced: self.snapshot.synced.load(Ordering::Acquire),
            change: Change::Batch(&[]),
            defaults: None,
            last_serial: self.snapshot.book().last(),
            held: &[],
            answers: &[],
            ended: &[],
        }
    }

    /// Numbers entries and puts them into the journal, if there is one, before
    /// what they say is done.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then it must not be done.
    pub fn record(&mut self, mut entries: Vec<Entry<'_>>) -> Result<(), Error> {
        let journal = self.snapshot.journal.as_deref();
        // A deleted snapshot is no longer in the journal.
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
        }
        appended.map_err(Error::NotStored)
    }

    /// Writes the whole snapshot again, as it is after the last entry.
    fn rewrite(&self, journal: &dyn Journal) -> Result<(), JournalError> {
        let aside = journal.open_aside()?;
        let book = self.snapshot.book();
        let (held, answers) = (book.entries(), book.answers());
        let write = || {
            let frozen = self.freeze();
            let mut objects = frozen.changes().filter_map(|change| change.object);
            loop {
                let part: Vec<Object> = objects.by_ref().take(REWRITE_OBJECTS).collect();
                if part.is_empty() {
                    break;
                }
                journal.write_aside(aside, &part)?;
            }
            journal.append(&[Entry {
                sequence: self.position.sequence,
                change: Change::Rewritten(aside),
                defaults: Some(&frozen.defaults),
                held: &held,
                answers: &answers,
                ..self.entry()
            }])
        };
        write().inspect_err(|_| journal.drop_aside(aside))
    }

    /// Applies a batch of the snapshot's own making, which is recorded.
    pub fn apply_own(&self, batch: &Batch, revision: i64, now: Now) -> Update {
        let applied = self.live.apply(batch, None, revision);
        *self.snapshot.updated.lock() = now;
        self.snapshot.moved_on(revision, applied, false)
    }

    /// Ends reservations, which is recorded.
    pub fn apply_ends(&self, ended: &[Serial], revision: i64, now: Now) -> Update {
        let deletions = Batch::trusted(self.snapshot.book().deletions(ended));
        let update = self.apply_own(&deletions, revision, now);
        self.snapshot.forget(ended);
        update
    }

    /// Has a new state answer.
    pub fn put_live(&mut self, state: State) {
        self.live = self.snapshot.put_live(state);
    }

    /// Deletes the snapshot.
    ///
    /// # Errors
    /// [`Error::NotStored`]; it is not deleted then.
    pub fn delete(mut self) -> Result<(), Error> {
        self.record(vec![Entry {
            change: Change::Deleted,
            ..self.entry()
        }])?;
        self.position.deleted = true;
        self.snapshot.note_deleted();
        Ok(())
    }
}
