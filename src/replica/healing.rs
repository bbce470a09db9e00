//! How a snapshot is read anew where its log does not continue what was read.

use std::sync::atomic::Ordering;

use uuid::Uuid;

use super::counts::note;
use super::decode::Decoding;
use super::server::Replica;
use super::track::{CheckpointRow, Condition, Reading, Track};
use super::waiting::unreachable;
use crate::log::{Bounds, Error, Message, Place, Verdict};
use crate::snapshot::{JournalError, Registry};

impl Replica {
    /// Has the log of a snapshot followed again where it cannot be any more; whether that
    /// was so. The snapshot is read anew, from a checkpoint that the log continues or from
    /// the first record. One that is ahead of a log which lost its end is written to it
    /// anew. Nothing is read anew of a log that is there again as it was.
    ///
    /// # Errors
    /// It is not possible now.
    pub(super) fn heal(&self, registry: &Registry, track: &Track) -> Result<bool, JournalError> {
        let condition = track.reading.lock().condition.clone();
        match condition {
            Condition::Following => return Ok(false),
            Condition::Later(_) => return Err(condition.refusal()),
            _ => {}
        }
        let bounds = self.waiting.until(self.log.bounds(&track.name))?;
        if let Condition::Ahead(_) = condition
            && let Some(place) = self.write_anew(registry, track, bounds)?
        {
            self.begin_from(track, Reading::from(place, &*self.log, &track.name));
            return Ok(true);
        }
        if condition == Condition::Gone && self.is_back(track, bounds)? {
            return Ok(true);
        }
        if !self.restore_newest(registry, track, bounds)? {
            if bounds.first > 1 {
                let why = "the log has no beginning, and no checkpoint continues it";
                return Err(unreachable(why));
            }
            self.begin_from(track, Reading::from(Place::START, &*self.log, &track.name));
        }
        Ok(true)
    }

    /// Follows a log that was gone, if it is there again and goes on where it was read up
    /// to; whether it is.
    fn is_back(&self, track: &Track, bounds: Bounds) -> Result<bool, JournalError> {
        let mut reading = track.reading.lock();
        let is_back = self.continues(track, &CheckpointRow::of(&reading), bounds)?;
        if is_back {
            reading.follower = self.log.follow(&track.name, reading.place.sequence);
            reading.condition = Condition::Following;
        }
        Ok(is_back)
    }

    /// Reads a log from a place on, where another snapshot begins or continues.
    fn begin_from(&self, track: &Track, reading: Reading) {
        if let Some(local) = &self.local {
            local.note_behind(&track.name);
        }
        Self::read_from(track, reading);
        note(&self.counts.bootstraps);
    }

    /// Has a snapshot of which nothing was read begin with its newest checkpoint: the
    /// log may hold much more than is left of it.
    ///
    /// # Errors
    /// It is not possible now.
    pub(super) fn begin(&self, registry: &Registry, track: &Track) -> Result<(), JournalError> {
        if track.reading.lock().place != Place::START {
            return Ok(());
        }
        match self.waiting.until(self.log.bounds(&track.name)) {
            // Without one it is read from its first record.
            Ok(bounds) => self.restore_newest(registry, track, bounds).map(drop),
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a log from a place on.
    pub(super) fn read_from(track: &Track, reading: Reading) {
        let sequence = reading.place.sequence;
        *track.reading.lock() = reading;
        track.applied.store(sequence, Ordering::Relaxed);
    }

    /// Restores the newest checkpoint that the log continues; whether there is one.
    fn restore_newest(
        &self,
        registry: &Registry,
        track: &Track,
        bounds: Bounds,
    ) -> Result<bool, JournalError> {
        for blob in self.checkpoints(&track.name)? {
            let row = match self.read_checkpoint(&blob) {
                Err(Decoding::Impossible(_)) => continue,
                row => row.map_err(unreachable)?,
            };
            let Some(entry) = row.snapshot.clone() else {
                continue;
            };
            if !self.continues(track, &row, bounds)? {
                continue;
            }
            let (epoch, entries) = (entry.epoch.clone(), entry.sequence);
            let restoring = match self.restore(registry, &track.name, entry) {
                Err(Decoding::Impossible(_)) => continue,
                restoring => restoring.map_err(unreachable)?,
            };
            registry.supersede(restoring);
            let reading = row.reading(&*self.log, &track.name);
            let mut reading = reading.expect("the log goes on at its place");
            reading.stand_at(&epoch, entries);
            self.begin_from(track, reading);
            track.checkpoint.store(row.sequence, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether a log goes on at the place of a checkpoint.
    pub(super) fn continues(
        &self,
        track: &Track,
        row: &CheckpointRow,
        bounds: Bounds,
    ) -> Result<bool, Error> {
        let Some(place) = row.place() else {
            return Ok(false);
        };
        if place.sequence + 1 < bounds.first || place.sequence > bounds.last {
            return Ok(false);
        }
        if place.sequence < bounds.last {
            let next = self.read_of_leader(&track.name, place.sequence + 1)?;
            let verdict = next.map(|message| place.judge(&message));
            return Ok(matches!(
                verdict,
                Some(Verdict::Valid(_) | Verdict::Void | Verdict::Later(_))
            ));
        }
        // Nothing comes after it: it is of the message itself.
        let own = self.read_of_leader(&track.name, place.sequence)?;
        Ok(own.is_some_and(|message| row.is_after(&message)))
    }

    /// The place after the last message of a log, as its last records tell it: the
    /// last one that counts, and what comes after that and does not.
    fn told_place(&self, track: &Track, bounds: Bounds) -> Result<Option<Place>, Error> {
        let mut later: Vec<Message> = Vec::new();
        for sequence in (bounds.first.max(1)..=bounds.last).rev() {
            let Some(message) = self.read_of_leader(&track.name, sequence)? else {
                return Ok(None);
            };
            if let Some(place) = Place::told_by(&message) {
                let end = later.iter().rev().fold(place, Place::after);
                return Ok(Some(end));
            }
            later.push(message);
        }
        Ok(None)
    }

    /// Writes a snapshot anew, under a new epoch, to its log which has lost its end.
    /// The place to read from, where that is still the same log; the first server
    /// that comes wins.
    fn write_anew(
        &self,
        registry: &Registry,
        track: &Track,
        bounds: Bounds,
    ) -> Result<Option<Place>, JournalError> {
        let mut reading = track.reading.lock();
        let place = reading.place;
        if bounds.last >= place.sequence {
            return Ok(None);
        }
        let told = self.told_place(track, bounds)?;
        let Some(at) = told.filter(|at| at.log_id == place.log_id) else {
            return Ok(None);
        };
        drop(reading);
        let snapshot = registry.get(&track.name).ok();
        let snapshot = snapshot.filter(|snapshot| snapshot.is_synced());
        let Some((whole, ())) = snapshot.and_then(|snapshot| snapshot.whole(|_| Some(()))) else {
            return Ok(None);
        };
        let mut entry = self.write_whole(&whole)?;
        entry.epoch = Uuid::new_v4().to_string();
        entry.sequence = 1;
        let condition = {
            reading = track.reading.lock();
            reading.place = at;
            reading.follower = self.log.follow(&track.name, at.sequence);
            std::mem::replace(&mut reading.condition, Condition::Following)
        };
        let published = self.publish(track, &mut reading, vec![entry]);
        if published.is_err() {
            reading.place = place;
            reading.condition = condition;
        }
        match published {
            Ok(()) => {
                tracing::warn!(
                    snapshot = track.name,
                    "a log has lost its end: the snapshot was written anew"
                );
                Ok(Some(at))
            }
            // Another server was first: what it wrote is read anew.
            Err(JournalError::Behind) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
