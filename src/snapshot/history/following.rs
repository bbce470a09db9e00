//! How a snapshot takes steps that were decided elsewhere: it applies the
//! entries of others, in their order, and checks nothing again but that they
//! fit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::Error;
use super::journal::{JournalError, OwnedChange, OwnedEntry, SavedSnapshot};
use super::named::Snapshot;
use super::replacing::swap_in;
use super::turn::WriteTurn;
use crate::snapshot::clock::Now;
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::{KeptAnswer, Reservation, Serial};
use crate::snapshot::state::shards::Applied;

/// How often a change is attempted while others come first.
pub(super) const ATTEMPTS: usize = 8;

impl WriteTurn<'_> {
    /// Applies what others have appended to the journal: what has arrived, or with
    /// `all` everything that was acknowledged before. The snapshot may be over
    /// afterwards.
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
            self.tell_standing(journal);
            let missed = journal.missed(self.standing(), all);
            let missed = missed.map_err(|error| self.not_stored(error))?;
            for entry in missed.entries {
                if let Err(why) = follow(self, entry) {
                    journal.diverged(self.snapshot.name(), &why);
                    return Err(self.not_stored(JournalError::Untrusted(why)));
                }
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

    /// Applies what has arrived, before something is recorded. Where others are to come
    /// first, it waits for them, for a moment.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub fn prepare(&mut self) -> Result<(), Error> {
        if let Some(journal) = &self.snapshot.around.journal
            && journal.is_shared()
        {
            journal.let_others(self.snapshot.name());
        }
        self.catch_up(false)
    }

    /// Attempts a change until nobody else comes first: each attempt is made on
    /// all that others have appended. What an attempt recorded comes right after
    /// all of that, so its result is final. The result of one that recorded nothing may
    /// be that of an older state: it is final only where nothing was missed. `None` when
    /// the snapshot is over.
    ///
    /// # Errors
    /// Those of the attempt, [`Error::NotStored`], and [`Error::Contended`]
    /// when others came first too often. What one attempt has sent may be recorded
    /// whatever the next one comes to, so the doubt of it stays: an update that was
    /// recorded after all makes the next attempt fail for its own revision.
    pub fn attempt<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut doubt = None;
        let attempted = self.attempt_until_known(|turn| {
            let result = attempt(turn);
            doubt = result
                .as_ref()
                .err()
                .filter(|it| it.is_doubt())
                .cloned()
                .or(doubt.take());
            result
        });
        attempted.map_err(|error| doubt.unwrap_or(error))
    }

    fn attempt_until_known<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut knows_all = !self.snapshot.around.is_shared();
        self.prepare()?;
        for _ in 0..ATTEMPTS {
            if self.position.deleted {
                return Ok(None);
            }
            let before = self.position.sequence;
            let result = attempt(self);
            if matches!(&result, Err(error) if error.is_behind()) {
                self.catch_up(false)?;
            } else if !knows_all && self.position.sequence == before {
                self.catch_up(true)?;
                knows_all = true;
            } else {
                return result.map(Some);
            }
        }
        Err(Error::Contended(self.snapshot.name().to_owned()))
    }
}

/// Applies an entry, and notes reservations of it that nobody was told of.
///
/// # Errors
/// Why it does not fit; nothing was changed then.
pub(super) fn follow(turn: &mut WriteTurn<'_>, entry: OwnedEntry) -> Result<(), String> {
    let (sequence, mark) = (entry.after.sequence, entry.mark);
    apply(turn, entry)?;
    let snapshot = turn.snapshot;
    if snapshot.unclaimed.lock().settle(sequence, mark) {
        snapshot.around.ends_changed.notify(usize::MAX);
    }
    Ok(())
}

fn apply(turn: &mut WriteTurn<'_>, entry: OwnedEntry) -> Result<(), String> {
    check(turn, &entry)?;
    let snapshot = turn.snapshot;
    let after = &entry.after;
    snapshot.begin(&after.epoch, after.created);
    turn.position.sequence = after.sequence;
    let now = snapshot.now();
    let at = now.back_to(after.updated);
    let before = turn.live.revision();
    let is_fed = entry.is_fed(before);
    let (revision, synced, last_serial) = (after.revision, after.synced, after.last_serial);
    let Some(applied) = change_state(turn, entry, now) else {
        return Ok(());
    };
    if snapshot.book().last < last_serial {
        snapshot.change_book(1, |book| book.last = last_serial);
    }
    if revision == before {
        return Ok(());
    }
    match is_fed {
        true => snapshot.fed(at, at.steady, Duration::ZERO),
        false => *snapshot.updated.lock() = at,
    }
    snapshot.moved_on(revision, applied, synced);
    Ok(())
}

/// Applies what an entry changes; `None` when it deletes the snapshot.
fn change_state(turn: &mut WriteTurn<'_>, entry: OwnedEntry, now: Now) -> Option<Applied> {
    let snapshot = turn.snapshot;
    let OwnedEntry {
        after,
        change,
        ended,
        ..
    } = entry;
    let SavedSnapshot {
        revision,
        defaults,
        held,
        answers,
        ..
    } = after;
    let applied = match change {
        OwnedChange::Deleted => {
            turn.position.deleted = true;
            snapshot.note_deleted();
            return None;
        }
        OwnedChange::Batch(batch) => {
            let batch = with_reservations(snapshot, batch, &held, &ended);
            snapshot.put(held, answers, now);
            match revision == turn.live.revision() {
                true => Applied::default(),
                false => turn.live.apply(&batch, defaults, revision),
            }
        }
        OwnedChange::Replaced(state) => {
            snapshot.put(held, answers, now);
            let defaults = defaults.unwrap_or_else(|| turn.live.defaults());
            swap_in(turn, state.0, (revision, defaults), &ended);
            counters::add(&snapshot.around.counters.replaces, 1);
            Applied::default()
        }
    };
    snapshot.forget(&ended);
    Some(applied)
}

fn check(turn: &WriteTurn<'_>, entry: &OwnedEntry) -> Result<(), String> {
    let snapshot = turn.snapshot;
    let (epoch, sequence) = (snapshot.epoch(), turn.position.sequence);
    let after = &entry.after;
    // The first entry of all.
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
    let steps = after.revision - snapshot.revision();
    if !(0..=1).contains(&steps) {
        return Err(format!("an entry moves the revision by {steps}"));
    }
    Ok(())
}

/// A batch with what reservations do to the state: those that are new begin to
/// count, and those that have ended no longer do.
fn with_reservations(
    snapshot: &Snapshot,
    batch: Batch,
    held: &[(Serial, Reservation)],
    ended: &[Serial],
) -> Batch {
    let book = snapshot.book();
    let mut more = book.deletions(ended);
    let new = held.iter().filter(|(serial, _)| !book.holds(*serial));
    more.extend(new.map(|(serial, held)| held.pod(*serial)));
    match more.is_empty() {
        true => batch,
        false => batch.and(more),
    }
}

impl OwnedEntry {
    /// Returns whether it is a sign of a feed: it does something that reservations do
    /// not do by themselves.
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
    /// Stops answering decisions: what it holds may be wrong.
    pub(super) fn distrust(&self) {
        if self.synced.swap(false, Ordering::AcqRel) {
            self.around.observer.snapshot_changed(self.name(), false);
        }
    }

    /// [Attempts](WriteTurn::attempt) a change of reservations.
    pub(super) fn in_turn<T>(
        &self,
        attempt: impl FnMut(&mut WriteTurn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let done = WriteTurn::take(self).attempt(attempt)?;
        done.ok_or_else(|| Error::NotFound(self.name().to_owned()))
    }

    /// Notes reservations as they are from now on, and answers.
    pub(super) fn put(
        &self,
        held: Vec<(Serial, Reservation)>,
        answers: Vec<(Serial, KeptAnswer)>,
        now: Now,
    ) {
        self.change_book(held.len() + answers.len(), |book| {
            book.put_all(held, answers, now);
        });
    }
}
