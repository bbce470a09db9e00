//! The replica as the journal of its registry: it records an entry by appending it to the log of
//! the snapshot.

use std::time::Duration;

use super::reading::{NextMessage, PROVING};
use super::server::Replica;
use super::server::note;
use super::server::unreachable;
use super::track::Condition;
use super::track::{Reading, Track};
use crate::entry_row::encode_changes;
use crate::{EntryRow, Error};
use evenkeel_core::snapshot::journal::{Missed, Standing};
use evenkeel_core::snapshot::{Aside, Batch, Change, Entry, Journal, JournalError};

/// The number of records that are read before they are handed out.
const AT_ONCE: usize = 32;

/// The longest wait to find out whether a log exists.
const LOOKING: Duration = Duration::from_secs(1);

/// The longest wait for a message that is known to be there.
const PATIENCE: Duration = Duration::from_secs(10);

impl Journal for Replica {
    fn is_shared(&self) -> bool {
        true
    }

    fn append(&self, entries: &[&Entry]) -> Result<(), JournalError> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(());
        };
        let track = self.track(&first.name);
        let mut reading = track.reading.lock();
        reading.condition.check()?;
        if !reading.ready.is_empty() || !follows(&reading, first) {
            return Err(JournalError::Behind);
        }
        let rows: Result<Vec<EntryRow>, _> = entries.iter().map(|e| self.row(e)).collect();
        self.publish(&track, &mut reading, rows?)?;
        match &last.change {
            Change::Deleted => reading.stand_before((self.clock)().steady),
            _ => reading.stand_at(&last.epoch, last.sequence, last.revision),
        }
        for aside in entries.iter().filter_map(|entry| entry.aside()) {
            self.asides.close(aside);
        }
        Ok(())
    }

    fn open_aside(&self) -> Result<Aside, JournalError> {
        Ok(self.asides.open((self.clock)().steady))
    }

    fn write_aside(&self, aside: Aside, changes: &Batch) -> Result<(), JournalError> {
        let changes = encode_changes(changes);
        self.with_aside(aside, |writing| self.add_framed(writing, &changes))
    }

    fn drop_aside(&self, aside: Aside) {
        self.asides.close(aside);
    }

    fn missed(&self, at: Standing<'_>, all: bool) -> Result<Missed, JournalError> {
        let track = self.track(at.snapshot);
        let mut reading = track.reading.lock();
        if !reading.is_of(at) {
            return Ok(Missed {
                is_over: true,
                ..Missed::default()
            });
        }
        self.read_on(&track, &mut reading, all)
    }

    fn has(&self, snapshot: &str) -> bool {
        let bounds = self.log.bounds(snapshot);
        self.waiting.within(LOOKING, bounds).is_ok()
    }

    fn diverged(&self, snapshot: &str, why: &str) {
        let track = self.track(snapshot);
        let mut reading = track.reading.lock();
        let why = format!("what the log says does not fit: {why}");
        let _ = self.stop(&track, &mut reading, Condition::Quarantined(why));
    }
}

impl Replica {
    /// The row of an entry, as it is appended.
    fn row(&self, entry: &Entry) -> Result<EntryRow, JournalError> {
        let finish = |aside| self.with_aside(aside, |writing| self.finish(writing));
        let aside = entry.aside().map(finish).transpose()?;
        Ok(EntryRow::of(entry, aside))
    }

    /// The next entries of a log: those that have arrived, or with `all` those that were
    /// acknowledged before the call.
    pub(super) fn read_on(
        &self,
        track: &Track,
        reading: &mut Reading,
        all: bool,
    ) -> Result<Missed, JournalError> {
        let read = match all {
            true => self.read_all(track, reading),
            false => self
                .read_some(track, reading, Duration::ZERO, AT_ONCE)
                .map(|read| read == AT_ONCE),
        };
        // Entries that were read are handed out even if reading the rest failed. The next call
        // reads on.
        let has_more = match reading.ready.is_empty() {
            true => read?,
            false => read.unwrap_or(true),
        };
        let missed = self.hand_out(track, reading)?;
        Ok(Missed {
            has_more: has_more || !reading.ready.is_empty(),
            ..missed
        })
    }

    /// Reads the messages that have arrived, `most` at most. Returns how many they were.
    fn read_some(
        &self,
        track: &Track,
        reading: &mut Reading,
        within: Duration,
        most: usize,
    ) -> Result<usize, JournalError> {
        for read in 0..most {
            match self.next(track, reading, within)? {
                NextMessage::Nothing => return Ok(read),
                NextMessage::Void => {}
                NextMessage::Record(body, message) => {
                    self.take_others(track, reading, (&body, &message))?;
                }
            }
        }
        Ok(most)
    }

    /// Reads everything that was acknowledged before the call, or [`AT_ONCE`] records of it.
    /// Returns whether there is more. The end of the log is proved by a record without entries that
    /// this server appends: a leader that was cut off reports an older end, but takes no record.
    fn read_all(&self, track: &Track, reading: &mut Reading) -> Result<bool, JournalError> {
        let last = match self.waiting.until(self.log.bounds(&track.name)) {
            Err(Error::NotFound(_)) => return self.miss(track, reading).map(|()| false),
            bounds => bounds?.last,
        };
        self.prove_end(track, reading, PROVING)?;
        while reading.place.sequence < last && reading.ready.len() < AT_ONCE {
            // Reads one message at a time: after the last one there is nothing to wait for.
            if self.read_some(track, reading, PATIENCE, 1)? == 0 {
                note(&self.counts.stalls);
                return Err(unreachable("its end was not read in time"));
            }
        }
        match reading.place.sequence < last || !reading.ready.is_empty() {
            true => Ok(true),
            false => self.confirm_end(track, reading),
        }
    }
}

/// Returns whether an entry comes right after those that were handed out.
fn follows(reading: &Reading, entry: &Entry) -> bool {
    let is_first = reading.epoch.is_empty() && entry.sequence == 1;
    is_first || (reading.epoch == entry.epoch && entry.sequence == reading.sequence + 1)
}
