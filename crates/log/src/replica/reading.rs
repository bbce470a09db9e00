//! Reads a log message by message. Only messages that prove their place are passed on.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::server::Replica;
use super::server::note;
use super::server::unreachable;
use super::track::Condition;
use super::track::{Reading, Track};
use crate::{Body, Error, Message, Unreadable};
use evenkeel_core::snapshot::journal::Missed;
use evenkeel_core::snapshot::{Change, JournalError};

/// The longest time that it may take to find out that the last record that was read is still there.
pub(super) const PROVING: Duration = Duration::from_secs(10);

/// The largest difference between the clocks of nats-servers, which lead a log in turn.
const BROKERS: Duration = Duration::from_secs(2);

/// The next message of a log.
pub enum NextMessage {
    /// A record, which is not taken yet.
    Record(Box<Body>, Message),
    /// A message that no reader applies; the log was read past it.
    Void,
    /// No message came in time.
    Nothing,
}

impl Replica {
    /// The next record of a log, if it comes in time.
    pub(super) fn next(
        &self,
        track: &Track,
        reading: &mut Reading,
        within: Duration,
    ) -> Result<NextMessage, JournalError> {
        reading.condition.check()?;
        self.prove_end(track, reading, PROVING)?;
        let after = reading.place.sequence;
        let next = self.waiting.until(reading.follower.next(after, within));
        let message = match next {
            Ok(Some(message)) => message,
            Ok(None) => {
                reading.is_caught_up = true;
                return Ok(NextMessage::Nothing);
            }
            Err(Error::NotFound(_))
                if after == 0 || reading.closing.is_some() || self.is_gone(track) =>
            {
                self.miss(track, reading)?;
                return Ok(NextMessage::Nothing);
            }
            Err(Error::Trimmed(_)) => return Err(self.stop(track, reading, Condition::Behind)),
            Err(Error::Shorter(last)) => {
                return Err(self.stop(track, reading, Condition::Ahead(last)));
            }
            Err(error) => return Err(error.into()),
        };
        match reading.place.judge(&message) {
            Ok(Some(body)) => Ok(NextMessage::Record(body, message)),
            Ok(None) => {
                note(&self.counts.voids);
                self.pass(track, reading, &message);
                Ok(NextMessage::Void)
            }
            Err(why) => Err(self.stop_at_next(track, reading, why)),
        }
    }

    /// Checks after each loss of the connection that the last message that was read is still in the
    /// log: meanwhile the log may have lost its end, and other servers may have written on from
    /// there. A record that lands after another message than this server has read would poison the
    /// log. The check takes no longer than `within`.
    pub(super) fn prove_end(
        &self,
        track: &Track,
        reading: &mut Reading,
        within: Duration,
    ) -> Result<(), JournalError> {
        let connection = self.log.connection();
        if reading.proved == connection {
            return Ok(());
        }
        let sequence = reading.place.sequence;
        if sequence > 0 {
            let read = self.read_or_end(&track.name, sequence);
            match self.waiting.within(within, read) {
                Ok(Some(message)) if !reading.ends_with(&message) => {
                    let why = format!("message {sequence} of the log is another one than was read");
                    return Err(self.stop(track, reading, Condition::Quarantined(why)));
                }
                Ok(_) => {}
                Err(Error::Shorter(last)) => {
                    return Err(self.stop(track, reading, Condition::Ahead(last)));
                }
                // The follower finds out that the log is gone.
                Err(Error::NotFound(_)) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        reading.proved = connection;
        Ok(())
    }

    /// A message; `None` if it is no longer kept.
    ///
    /// # Errors
    /// [`Error::Shorter`]: the log ends before it, as its leader says.
    async fn read_or_end(&self, name: &str, sequence: u64) -> Result<Option<Message>, Error> {
        let read = self.log.read(name, sequence).await;
        if !matches!(read, Err(Error::NotFound(_))) {
            return read.map(Some);
        }
        let bounds = self.log.bounds(name).await?;
        match sequence > bounds.last {
            true => Err(Error::Shorter(bounds.last)),
            false => Ok(None),
        }
    }

    /// A message; `None` if it is no longer kept, or the log ends before it.
    pub(super) fn read_kept(&self, name: &str, sequence: u64) -> Result<Option<Message>, Error> {
        match self.waiting.until(self.log.read(name, sequence)) {
            Err(Error::NotFound(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns whether a log is gone. A follower may also not find it while a leader is elected.
    fn is_gone(&self, track: &Track) -> bool {
        let bounds = self.waiting.until(self.log.bounds(&track.name));
        matches!(bounds, Err(Error::NotFound(_)))
    }

    /// Goes on without a log. Before the first append, and after the snapshot was deleted, there is
    /// none. Otherwise somebody has deleted it.
    pub(super) fn miss(&self, track: &Track, reading: &mut Reading) -> Result<(), JournalError> {
        if reading.place.sequence > 0 {
            if reading.closing.is_none() && !self.was_removed(&track.name, reading.place)? {
                return Err(self.stop(track, reading, Condition::Gone));
            }
            self.read_anew(track, reading);
        }
        Ok(())
    }

    /// Reads past a message.
    fn pass(&self, track: &Track, reading: &mut Reading, message: &Message) {
        reading.before = reading.place.hash;
        reading.place = reading.place.after(message);
        track.applied.store(message.sequence, Ordering::Relaxed);
    }

    /// Reads past a record.
    pub(super) fn take(
        &self,
        track: &Track,
        reading: &mut Reading,
        (body, message): (&Body, &Message),
    ) {
        self.pass(track, reading, message);
        reading.place.log_id = body.log_id();
        if body.closes {
            reading.closing = Some(message.clone());
        }
    }

    /// Takes a record of another server: its entries are handed out next.
    pub(super) fn take_others(
        &self,
        track: &Track,
        reading: &mut Reading,
        (body, message): (&Body, &Message),
    ) -> Result<(), JournalError> {
        let decoded = self.decode(&track.name, body);
        let mut entries = decoded.map_err(|why| self.stop_at_next(track, reading, why))?;
        if !entries.is_empty() {
            note(&self.counts.followed);
            let age = self.age_of(track, reading, message.at);
            entries.iter_mut().for_each(|it| it.after.pass(age));
        }
        self.take(track, reading, (body, message));
        reading.ready.extend(entries);
        Ok(())
    }

    /// The least time that has passed since the log took something at this time by its own clock.
    /// Until a log was read to its end, its clock is compared with itself, as of now and as of then,
    /// with an allowance for nats-servers that lead the log in turn. No time has passed since the
    /// log took what is read after that, or if the log does not tell the time.
    pub(super) fn age_of(&self, track: &Track, reading: &mut Reading, at: SystemTime) -> Duration {
        if reading.is_caught_up {
            return Duration::ZERO;
        }
        let (told, when) = match reading.log_time {
            Some(known) => known,
            None => {
                let bounds = self.waiting.until(self.log.bounds(&track.name));
                let Some(told) = bounds.ok().and_then(|bounds| bounds.now) else {
                    return Duration::ZERO;
                };
                // No later than now, so that nothing counts as older than it is.
                *reading.log_time.insert((told, (self.clock)().steady))
            }
        };
        let since = (self.clock)().steady.since(when);
        let passed = (told + since).duration_since(at).unwrap_or_default();
        passed.saturating_sub(BROKERS)
    }

    /// Hands out the entries that were read, up to the end of their snapshot. `is_over` says that
    /// the snapshot has ended otherwise than by its deletion.
    pub(super) fn hand_out(
        &self,
        track: &Track,
        reading: &mut Reading,
    ) -> Result<Missed, JournalError> {
        let mut missed = Missed::default();
        while let Some(entry) = reading.ready.pop_front() {
            if reading.epoch.is_empty() {
                let is_whole = matches!(entry.change, Change::Replaced(_));
                if entry.after.sequence != 1 && !is_whole {
                    let why = "the log begins in the middle of a snapshot".to_owned();
                    return Err(self.stop(track, reading, Condition::Quarantined(why)));
                }
                if entry.after.revision < reading.came_to(&entry.after.epoch) {
                    // Answers were given at a higher revision: the log is read again, aside.
                    return Err(self.stop(track, reading, Condition::Behind));
                }
            } else if reading.epoch != entry.after.epoch {
                reading.ready.push_front(entry);
                reading.stand_before((self.clock)().steady);
                missed.is_over = true;
                break;
            }
            let is_last = matches!(entry.change, Change::Deleted);
            let after = &entry.after;
            reading.stand_at(&after.epoch, after.sequence, after.revision);
            missed.entries.push(entry);
            if is_last {
                reading.stand_before((self.clock)().steady);
                break;
            }
        }
        Ok(missed)
    }

    /// Stops following because the next message cannot be read, unless it may be read later.
    fn stop_at_next(&self, track: &Track, reading: &mut Reading, why: Unreadable) -> JournalError {
        let condition = match why {
            // The record is taken once the blobs that it needs can be read.
            Unreadable::Unreachable(why) | Unreadable::Missing(why) => return unreachable(why),
            Unreadable::Later(why) => Condition::Later(why),
            Unreadable::Damaged(why) => {
                let next = reading.place.sequence + 1;
                Condition::Quarantined(format!("message {next} of the log: {why}"))
            }
        };
        self.stop(track, reading, condition)
    }

    /// Stops following. Returns the error for callers that want to change the snapshot.
    pub(super) fn stop(
        &self,
        track: &Track,
        reading: &mut Reading,
        condition: Condition,
    ) -> JournalError {
        let why = condition.told();
        match condition.trouble() {
            Some(_) => tracing::error!(snapshot = track.name, why, "a log cannot be followed"),
            None => tracing::info!(snapshot = track.name, why, "the log is asked again"),
        }
        if matches!(condition, Condition::Quarantined(_)) {
            note(&self.counts.quarantines);
        }
        let refused = condition.refusal();
        reading.condition = condition;
        refused
    }
}
