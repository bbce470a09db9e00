//! Follows steps that other servers took: a snapshot applies their entries in order, and checks
//! only that they fit.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::journal::{JournalError, OwnedChange, OwnedEntry};
use super::named::Snapshot;
use super::offer::FeedSign;
use super::turn::{Step, WriteTurn};
use crate::snapshot::state::revision::State;

/// The number of attempts at a change while others come first.
pub(super) const ATTEMPTS: usize = 32;

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
    /// too often. An attempt whose entry may still be recorded is the last one: the next one might
    /// find that entry, and report its own work as that of others.
    pub fn attempt<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut knows_all = !self.snapshot.around.is_shared();
        self.catch_up(false)?;
        for _ in 0..ATTEMPTS {
            if self.position.deleted {
                return Ok(None);
            }
            let before = self.position.sequence;
            let result = attempt(self);
            let is_final = knows_all || self.position.sequence != before;
            match &result {
                Err(error) if error.is_behind() => self.catch_up(false)?,
                Err(error) if error.is_doubt() => return result.map(Some),
                _ if is_final => return result.map(Some),
                _ => {
                    self.catch_up(true)?;
                    knows_all = true;
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
pub(super) fn follow(turn: &mut WriteTurn<'_>, entries: Vec<OwnedEntry>) -> Result<(), String> {
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
        if matches!(entry.change, OwnedChange::Deleted) {
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

fn check(turn: &WriteTurn<'_>, revision: i64, entry: &OwnedEntry) -> Result<(), String> {
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

impl OwnedEntry {
    /// Returns whether the entry is a sign of a feed: it has effects that reservations alone do not
    /// have.
    fn is_fed(&self, before: i64) -> bool {
        let after = &self.after;
        let is_of_reservations = !(after.held.is_empty() && self.ended.is_empty());
        let has_objects = match &self.change {
            OwnedChange::Batch(batch) => !batch.is_empty(),
            OwnedChange::Replaced(_) => true,
            OwnedChange::Deleted => false,
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
