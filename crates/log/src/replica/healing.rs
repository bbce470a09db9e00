//! Reads a snapshot anew if its log does not continue what was read.

use std::sync::atomic::Ordering;

use uuid::Uuid;

use super::server::Replica;
use super::server::note;
use super::server::unreachable;
use super::track::Condition;
use super::track::{CheckpointRow, ReadAside, Reading, Track};
use crate::{Bounds, Error, Place, Unreadable};
use evenkeel_core::snapshot::held_row::time;
use evenkeel_core::snapshot::journal::Whole;
use evenkeel_core::snapshot::{JournalError, Registry};

impl Replica {
    /// Follows the log of a snapshot again if it could not be followed any more. Returns whether
    /// that was so. The snapshot is read anew, aside: from a checkpoint that the log continues, or from
    /// the first record. It answers once everything acknowledged was read, and if it is not behind
    /// earlier answers.
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
        self.read_aside(registry, track, &bounds)?;
        Ok(true)
    }

    /// Begins a snapshot of which nothing was read with its newest checkpoint: the log may hold
    /// much more than the checkpoint. Returns whether it did so.
    ///
    /// # Errors
    /// It is not possible now.
    pub(super) fn begin(&self, registry: &Registry, track: &Track) -> Result<bool, JournalError> {
        if track.reading.lock().place != Place::START {
            return Ok(false);
        }
        let bounds = match self.waiting.until(self.log.bounds(&track.name)) {
            Err(Error::NotFound(_)) => return Ok(false),
            bounds => bounds?,
        };
        // Without a checkpoint the log is read from its first record.
        if self.checkpoints(&track.name)?.is_empty() {
            return Ok(false);
        }
        self.read_aside(registry, track, &bounds).map(|()| true)
    }

    /// Makes a track go on with another reading of its log.
    pub(super) fn read_from(track: &Track, reading: Reading) {
        let sequence = reading.place.sequence;
        *track.reading.lock() = reading;
        track.applied.store(sequence, Ordering::Relaxed);
    }

    /// Reads a snapshot anew up to the end of its log, and then replaces the former snapshot, which
    /// answers meanwhile. If this fails, the next call goes on from what was read so far.
    fn read_aside(
        &self,
        registry: &Registry,
        track: &Track,
        bounds: &Bounds,
    ) -> Result<(), JournalError> {
        let mut kept = track.anew.lock();
        let mut anew = match kept.take() {
            Some(anew) => anew,
            None => self.begin_anew(registry, track, bounds)?,
        };
        loop {
            let read = self.read_to_end(&mut anew);
            if let Err(error) = read {
                let follows = anew.track.reading.lock().condition == Condition::Following;
                *kept = follows.then_some(anew);
                return Err(error);
            }
            let is_behind = {
                let reading = anew.track.reading.lock();
                reading.is_behind(&track.reading.lock())
            };
            if !is_behind {
                break;
            }
            let Some(whole) = anew.snapshot.whole() else {
                break;
            };
            // The log has lost records on which answers were based. It goes on under a new epoch.
            let written = self.write_anew(&anew.track, &whole)?;
            if let Some(place) = written {
                anew = self.anew(registry, &track.name, place);
            }
        }
        self.take_over(registry, track, anew);
        Ok(())
    }

    /// Makes a snapshot that was read aside answer from now on.
    fn take_over(&self, registry: &Registry, track: &Track, anew: ReadAside) {
        let mut reading = anew.track.reading.into_inner();
        registry.supersede(anew.snapshot, || {
            reading.succeed(&track.reading.lock());
            Self::read_from(track, reading);
        });
        track
            .checkpoint
            .fetch_max(anew.track.checkpoint.into_inner(), Ordering::Relaxed);
        note(&self.counts.bootstraps);
    }

    /// Applies all that a log holds after the place where a snapshot aside stands.
    fn read_to_end(&self, anew: &mut ReadAside) -> Result<(), JournalError> {
        loop {
            let missed = {
                let mut reading = anew.track.reading.lock();
                reading.condition.check()?;
                self.read_on(&anew.track, &mut reading, true)?
            };
            if let Err(why) = anew.snapshot.apply(missed.entries) {
                let why = format!("what the log says does not fit: {why}");
                let mut reading = anew.track.reading.lock();
                return Err(self.stop(&anew.track, &mut reading, Condition::Quarantined(why)));
            }
            if missed.is_over {
                anew.snapshot.begin_again();
            }
            if !missed.has_more {
                return Ok(());
            }
        }
    }

    /// Begins an empty snapshot aside at a place of a log.
    fn anew(&self, registry: &Registry, name: &str, place: Place) -> ReadAside {
        let reading = Reading::from(place, &*self.log, name);
        ReadAside {
            track: Box::new(Track::new(name, reading)),
            snapshot: registry.successor(name, None),
        }
    }

    /// Begins to read a snapshot anew: from the newest checkpoint that its log continues, or
    /// from the first record.
    fn begin_anew(
        &self,
        registry: &Registry,
        track: &Track,
        bounds: &Bounds,
    ) -> Result<ReadAside, JournalError> {
        let name = &*track.name;
        for blob in self.checkpoints(name)? {
            let row = match self.read_checkpoint(&blob) {
                Err(Unreadable::Damaged(_) | Unreadable::Missing(_)) => continue,
                row => row.map_err(unreachable)?,
            };
            if !self.continues(track, &row, bounds)? {
                continue;
            }
            let reading = row.reading(&*self.log, name);
            let mut reading = reading.expect("the log goes on at its place");
            let age = self.age_of(track, &mut reading, time(row.copied));
            let aside = row.snapshot.unwrap_or_default();
            let restoring = match self.restore(registry, name, &aside, age) {
                Err(Unreadable::Damaged(_) | Unreadable::Missing(_)) => continue,
                restored => restored.map_err(unreachable)?,
            };
            let saved = &restoring.saved;
            reading.stand_at(&saved.epoch, saved.sequence, saved.revision);
            let track = Track::new(name, reading);
            track.checkpoint.store(row.sequence, Ordering::Relaxed);
            return Ok(ReadAside {
                track: Box::new(track),
                snapshot: registry.successor(name, Some(restoring)),
            });
        }
        match bounds.first <= 1 {
            true => Ok(self.anew(registry, name, Place::START)),
            false => Err(unreachable(
                "the log has no beginning, and no checkpoint continues it",
            )),
        }
    }

    /// Returns whether a log goes on at the place of a checkpoint.
    pub(super) fn continues(
        &self,
        track: &Track,
        row: &CheckpointRow,
        bounds: &Bounds,
    ) -> Result<bool, Error> {
        let Some(place) = row.place() else {
            return Ok(false);
        };
        if place.sequence + 1 < bounds.first || place.sequence > bounds.last {
            return Ok(false);
        }
        if place.sequence < bounds.last {
            let next = self.read_kept(&track.name, place.sequence + 1)?;
            let judged = next.map(|message| place.judge(&message));
            return Ok(matches!(judged, Some(Ok(_) | Err(Unreadable::Later(_)))));
        }
        // Nothing comes after the place, so its own message is compared.
        let own = self.read_kept(&track.name, place.sequence)?;
        Ok(own.is_some_and(|message| row.is_after(&message)))
    }

    /// Writes a snapshot anew at the end of a log, under a new epoch. Returns the place before it;
    /// `None` if another server was first: its record is read instead.
    fn write_anew(&self, aside: &Track, whole: &Whole) -> Result<Option<Place>, JournalError> {
        let mut entry = self.write_whole(whole)?;
        entry.epoch = Uuid::new_v4().to_string();
        entry.sequence = 1;
        let mut reading = aside.reading.lock();
        let place = reading.place;
        match self.publish(aside, &mut reading, vec![entry]) {
            Ok(()) => {
                tracing::warn!(
                    snapshot = aside.name,
                    "a log has lost its end: the snapshot was written anew"
                );
                Ok(Some(place))
            }
            Err(JournalError::Behind) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
