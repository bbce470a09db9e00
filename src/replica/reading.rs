//! Reads a log message by message. Only messages that prove their place are passed on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::condition::Condition;
use super::counts::note;
use super::decode::{Decoded, Decoding};
use super::server::Replica;
use super::track::{Reading, Track};
use super::waiting::unreachable;
use crate::log::{Body, Error, Message, Verdict};
use crate::snapshot::{JournalError, Missed, OwnedChange};

/// The longest time that it may take to find out that the last record that was read is still there.
pub(super) const PROVING: Duration = Duration::from_secs(10);

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
            Ok(None) => return Ok(NextMessage::Nothing),
            Err(Error::NotFound(_)) if after == 0 || reading.is_closed || self.is_gone(track) => {
                self.miss(track, reading)?;
                return Ok(NextMessage::Nothing);
            }
            Err(Error::Trimmed(_)) => return Err(self.stop(track, reading, Condition::Behind)),
            Err(Error::Shorter(last)) => {
                return Err(self.stop(track, reading, Condition::Ahead(last)));
            }
            Err(error) => return Err(error.into()),
        };
        let verdict = reading.place.judge(&message);
        self.act_on(track, reading, (verdict, message))
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
            let read = self.read_of_any(&track.name, sequence);
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

    /// A message of the leader, or of a copy that has it; `None` where it was trimmed.
    ///
    /// # Errors
    /// [`Error::Shorter`]: the log ends before it, as its leader says.
    async fn read_of_any(&self, name: &str, sequence: u64) -> Result<Option<Message>, Error> {
        let read = self.log.read(name, sequence).await;
        if !matches!(read, Err(Error::NotFound(_))) {
            return read.map(Some);
        }
        let bounds = self.log.bounds(name).await?;
        if sequence > bounds.last {
            return Err(Error::Shorter(bounds.last));
        }
        Ok(self.copies_of(name, sequence).await?.into_iter().next())
    }

    /// As [`Self::read_of_any`]; `None` also if the log ends before the message.
    pub(super) fn read_kept(&self, name: &str, sequence: u64) -> Result<Option<Message>, Error> {
        match self.waiting.until(self.read_of_any(name, sequence)) {
            Err(Error::Shorter(_)) => Ok(None),
            read => read,
        }
    }

    /// A message from each copy that has it.
    async fn copies_of(&self, name: &str, sequence: u64) -> Result<Vec<Message>, Error> {
        let copies = self.log.read_copies(name, sequence, 1).await?;
        let messages = copies.into_iter().flat_map(|(_, messages)| messages);
        Ok(messages.collect())
    }

    /// Returns whether a log is gone. A follower may also not find it while a leader is elected.
    fn is_gone(&self, track: &Track) -> bool {
        let bounds = self.waiting.until(self.log.bounds(&track.name));
        matches!(bounds, Err(Error::NotFound(_)))
    }

    /// Goes on without a log. Before the first append, and after it was closed, there is none.
    /// Otherwise somebody has deleted it.
    pub(super) fn miss(&self, track: &Track, reading: &mut Reading) -> Result<(), JournalError> {
        if reading.place.sequence > 0 {
            if !reading.is_closed {
                return Err(self.stop(track, reading, Condition::Gone));
            }
            self.read_anew(track, reading);
        }
        Ok(())
    }

    fn act_on(
        &self,
        track: &Track,
        reading: &mut Reading,
        (verdict, message): (Verdict, Message),
    ) -> Result<NextMessage, JournalError> {
        match verdict {
            Verdict::Valid(body) => Ok(NextMessage::Record(body, message)),
            Verdict::Void => {
                note(&self.counts.voids);
                self.pass(track, reading, &message);
                Ok(NextMessage::Void)
            }
            Verdict::Later(why) => {
                Err(self.stop(track, reading, Condition::Later(why.to_string())))
            }
            suspicious => match self.reread(track, reading)? {
                Some(found) => {
                    note(&self.counts.reread);
                    self.act_on(track, reading, found)
                }
                None => {
                    let place = reading.place.sequence + 1;
                    let why = format!("message {place} of the log: {}", told(&suspicious));
                    Err(self.stop(track, reading, Condition::Quarantined(why)))
                }
            },
        }
    }

    /// The next message from the leader, or else from a copy, if it is sound there.
    fn reread(
        &self,
        track: &Track,
        reading: &Reading,
    ) -> Result<Option<(Verdict, Message)>, JournalError> {
        let sequence = reading.place.sequence + 1;
        let judged = |message: Message| {
            let verdict = reading.place.judge(&message);
            matches!(verdict, Verdict::Valid(_) | Verdict::Void).then_some((verdict, message))
        };
        match self.waiting.until(self.log.read(&track.name, sequence)) {
            Ok(message) => {
                if let Some(sound) = judged(message) {
                    return Ok(Some(sound));
                }
            }
            Err(Error::NotFound(_)) => {}
            // Nothing has checked the leader's message yet.
            Err(error) => return Err(error.into()),
        }
        let copies = self.waiting.until(self.copies_of(&track.name, sequence))?;
        Ok(copies.into_iter().find_map(judged))
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
        reading.at = reading.at.max(body.at);
        if !body.entries.is_empty() || body.outside.is_some() {
            reading.taken = Some(message.at);
        }
        reading.is_closed |= body.closes;
    }

    /// Takes a record of another server: its entries are handed out next.
    pub(super) fn take_others(
        &self,
        track: &Track,
        reading: &mut Reading,
        (body, message): (&Body, &Message),
    ) -> Result<(), JournalError> {
        let entries = match self.decode(&track.name, body) {
            Ok(entries) => entries,
            // The record is taken once the blobs that it needs can be read.
            Err(Decoding::Unreachable(why)) => return Err(unreachable(why)),
            Err(Decoding::Later(why)) => {
                return Err(self.stop(track, reading, Condition::Later(why)));
            }
            Err(Decoding::Impossible(why)) => {
                let why = format!("record {}: {why}", message.sequence);
                return Err(self.stop(track, reading, Condition::Quarantined(why)));
            }
        };
        if !entries.is_empty() {
            note(&self.counts.followed);
        }
        reading.note_other(&body.writer);
        let before = reading.taken;
        self.take(track, reading, (body, message));
        if let Some(Decoded { entry, .. }) = entries.last().filter(|_| !track.is_aside) {
            self.note_milestone(reading, before, (&entry.after.epoch, entry.after.sequence));
        }
        if self.local.is_some() && !track.is_aside {
            let local: Vec<_> = entries.iter().map(|it| it.as_kept()).collect();
            self.keep(track, reading, &local);
        }
        entries.iter().for_each(|it| self.drop_local(it.local));
        reading.ready.extend(entries.into_iter().map(|it| it.entry));
        Ok(())
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
                let is_whole = matches!(entry.change, OwnedChange::Replaced(_));
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
            let is_last = matches!(entry.change, OwnedChange::Deleted);
            let after = &entry.after;
            reading.stand_at(&after.epoch, after.sequence, after.revision);
            missed.entries.push(entry);
            if is_last {
                reading.stand_before((self.clock)().steady);
                break;
            }
            // Stops at the milestone, so that the snapshot is copied exactly there.
            let milestone = reading.milestone.as_ref();
            if milestone.is_some_and(|it| it.is_at(&reading.epoch, reading.sequence)) {
                break;
            }
        }
        Ok(missed)
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

fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Damaged(why) => why.to_string(),
        Verdict::Gap => "it is missing".to_owned(),
        Verdict::OtherLog => "it is of another log: this one was made anew".to_owned(),
        Verdict::Fork => "it follows on another message than the one that was read".to_owned(),
        Verdict::Valid(_) | Verdict::Void | Verdict::Later(_) => String::new(),
    }
}
