//! How a snapshot is read anew where its log does not continue what was read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use uuid::Uuid;

use super::checkpoint_row::CheckpointRow;
use super::counts::note;
use super::decode::Decoding;
use super::server::Replica;
use super::track::{Condition, Reading, Track};
use crate::log::{Bounds, Error, Message, Place, Source, Verdict};
use crate::snapshot::{self, JournalError, Registry, Snapshot};

fn not_stored(error: impl ToString) -> snapshot::Error {
    snapshot::Error::NotStored(JournalError::Unreachable(error.to_string()))
}

impl Replica {
    /// Has the log of a snapshot followed again: the snapshot is read anew, from
    /// a checkpoint that the log continues or from the first record. A snapshot that
    /// is ahead of a log which lost its end is written to it anew. Nothing is read anew of
    /// a log that is there again as it was.
    ///
    /// # Errors
    /// It is not possible now.
    pub(super) fn heal(
        &self,
        registry: &Registry,
        track: &Arc<Track>,
    ) -> Result<(), snapshot::Error> {
        let condition = track.reading.lock().condition.clone();
        if let Condition::Later(_) = condition {
            let trouble = condition.trouble().unwrap_or_default();
            return Err(not_stored(trouble));
        }
        let bounds = match self.waiting.until(self.log.bounds(&track.name)) {
            Ok(bounds) => bounds,
            Err(error) => return Err(not_stored(error)),
        };
        if let Condition::Ahead(_) = condition {
            let snapshot = registry.get(&track.name).ok();
            if let Some(place) = self.write_anew(track, snapshot.as_deref(), bounds)? {
                let follower = self.log.follow(&track.name, place.sequence);
                self.begin_from(track, Reading::from(place, follower));
                return Ok(());
            }
        }
        if condition == Condition::Gone && self.is_back(track, bounds)? {
            return Ok(());
        }
        self.bootstrap(registry, track, bounds)
    }

    /// Follows a log that was gone, if it is there again and goes on where it was read up
    /// to; whether it is.
    fn is_back(&self, track: &Track, bounds: Bounds) -> Result<bool, snapshot::Error> {
        let mut reading = track.reading.lock();
        let (row, place) = (CheckpointRow::of(&reading), reading.place);
        let is_back = self.continues(track, (&row, place), bounds);
        let is_back = is_back.map_err(not_stored)?;
        if is_back {
            reading.follower = self.log.follow(&track.name, place.sequence);
            reading.condition = Condition::Following;
        }
        Ok(is_back)
    }

    /// Reads a log from a place on, where another snapshot begins or continues.
    fn begin_from(&self, track: &Track, reading: Reading) {
        self.outdate_local(&track.name);
        Self::read_from(track, reading);
        note(&self.counts.bootstraps);
    }

    /// Has a snapshot of which nothing was read begin with its newest checkpoint: the
    /// log may hold much more than is left of it.
    ///
    /// # Errors
    /// It is not possible now.
    pub(super) fn begin(&self, registry: &Registry, track: &Track) -> Result<(), snapshot::Error> {
        if track.reading.lock().place != Place::START {
            return Ok(());
        }
        match self.waiting.until(self.log.bounds(&track.name)) {
            // Without one it is read from its first record.
            Ok(bounds) => self.restore_newest(registry, track, bounds).map(drop),
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(not_stored(error)),
        }
    }

    /// Reads a log from a place on.
    pub(super) fn read_from(track: &Track, reading: Reading) {
        let sequence = reading.place.sequence;
        *track.reading.lock() = reading;
        track.applied.store(sequence, Ordering::Relaxed);
    }

    fn bootstrap(
        &self,
        registry: &Registry,
        track: &Track,
        bounds: Bounds,
    ) -> Result<(), snapshot::Error> {
        if self.restore_newest(registry, track, bounds)? {
            return Ok(());
        }
        if bounds.first > 1 {
            return Err(not_stored(
                "the log has no beginning, and no checkpoint continues it",
            ));
        }
        let follower = self.log.follow(&track.name, 0);
        self.begin_from(track, Reading::from(Place::START, follower));
        Ok(())
    }

    /// Restores the newest checkpoint that the log continues; whether there is one.
    fn restore_newest(
        &self,
        registry: &Registry,
        track: &Track,
        bounds: Bounds,
    ) -> Result<bool, snapshot::Error> {
        for blob in self
            .checkpoints(&track.name)
            .map_err(snapshot::Error::NotStored)?
        {
            let row = match self.read_checkpoint(&blob) {
                Ok(row) => row,
                Err(Decoding::Impossible(_)) => continue,
                Err(error) => return Err(not_stored(error)),
            };
            let (Some(place), Some(entry)) = (row.place(), row.snapshot.clone()) else {
                continue;
            };
            let continued = self.continues(track, (&row, place), bounds);
            if !continued.map_err(not_stored)? {
                continue;
            }
            let (epoch, entries) = (entry.epoch.clone(), entry.sequence);
            let restoring = match self.restore(registry, &track.name, entry) {
                Ok(restoring) => restoring,
                Err(Decoding::Impossible(_)) => continue,
                Err(error) => return Err(not_stored(error)),
            };
            registry.supersede(restoring);
            let follower = self.log.follow(&track.name, place.sequence);
            let mut reading = row.reading(place, follower);
            reading.stand_at(&epoch, entries);
            self.begin_from(track, reading);
            track.checkpoint.store(place.sequence, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether a log goes on at a place.
    pub(super) fn continues(
        &self,
        track: &Track,
        (row, place): (&CheckpointRow, Place),
        bounds: Bounds,
    ) -> Result<bool, Error> {
        if place.sequence + 1 < bounds.first || place.sequence > bounds.last {
            return Ok(false);
        }
        let read = |sequence| self.read_sound(track, sequence);
        if place.sequence < bounds.last {
            let next = read(place.sequence + 1)?;
            let verdict = next.map(|message| place.judge(&message));
            return Ok(matches!(
                verdict,
                Some(Verdict::Valid(_) | Verdict::Void | Verdict::Later(_))
            ));
        }
        // Nothing comes after it: it is of the message itself.
        let own = read(place.sequence)?;
        Ok(own.is_some_and(|message| row.is_after(&message)))
    }

    fn read_sound(&self, track: &Track, at: u64) -> Result<Option<Message>, Error> {
        let read = self.log.read(&track.name, at, Source::Leader);
        match self.waiting.until(read) {
            Ok(message) => Ok(Some(message)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The place after the last message of a log, as its last records tell it: the
    /// last one that counts, and what comes after that and does not.
    fn told_place(
        &self,
        track: &Track,
        bounds: Bounds,
        last: Message,
    ) -> Result<Option<Place>, snapshot::Error> {
        let mut messages = vec![last];
        loop {
            let first = messages.last().expect("there is one");
            if let Some(place) = Place::told_by(first) {
                let later = messages.iter().rev().skip(1);
                return Ok(Some(
                    later.fold(place, |place, message| place.after(message)),
                ));
            }
            let before = first.sequence.saturating_sub(1);
            let found = match before >= bounds.first.max(1) {
                true => self.read_sound(track, before).map_err(not_stored)?,
                false => None,
            };
            match found {
                Some(message) => messages.push(message),
                None => return Ok(None),
            }
        }
    }

    /// The end of a log that was read up to a place and has lost its end; `None` where it
    /// has not, or is another log.
    fn lost_end(
        &self,
        track: &Track,
        place: Place,
        bounds: Bounds,
    ) -> Result<Option<Place>, snapshot::Error> {
        if bounds.last >= place.sequence || bounds.last < bounds.first {
            return Ok(None);
        }
        let last = self.read_sound(track, bounds.last);
        let Some(last) = last.map_err(not_stored)? else {
            return Ok(None);
        };
        let at = self.told_place(track, bounds, last)?;
        Ok(at.filter(|at| at.log_id == place.log_id))
    }

    /// Writes a snapshot anew, under a new epoch, to its log which has lost its end.
    /// The place to read from, where that is still the same log; the first server
    /// that comes wins.
    fn write_anew(
        &self,
        track: &Track,
        snapshot: Option<&Snapshot>,
        bounds: Bounds,
    ) -> Result<Option<Place>, snapshot::Error> {
        let mut reading = track.reading.lock();
        let place = reading.place;
        let Some(at) = self.lost_end(track, place, bounds)? else {
            return Ok(None);
        };
        drop(reading);
        let whole = snapshot.filter(|snapshot| snapshot.is_synced());
        let Some(whole) = whole.and_then(|snapshot| self.whole(snapshot)) else {
            return Ok(None);
        };
        let mut entry = self
            .write_whole(&whole)
            .map_err(snapshot::Error::NotStored)?;
        entry.epoch = Uuid::new_v4().to_string();
        entry.sequence = 1;
        let condition = {
            reading = track.reading.lock();
            reading.place = at;
            reading.follower = self.log.follow(&track.name, at.sequence);
            std::mem::replace(&mut reading.condition, Condition::Following)
        };
        match self.publish(track, &mut reading, vec![entry]) {
            Ok(()) => {
                tracing::warn!(
                    snapshot = track.name,
                    "a log has lost its end: the snapshot was written anew"
                );
                Ok(Some(at))
            }
            // Another server was first: what it wrote is read anew.
            Err(JournalError::Behind) => {
                reading.place = place;
                reading.condition = condition;
                Ok(None)
            }
            Err(error) => {
                reading.place = place;
                reading.condition = condition;
                Err(snapshot::Error::NotStored(error))
            }
        }
    }
}
