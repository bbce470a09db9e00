//! Appends records: compare, append, and wait until they come back.

use std::time::{Duration, SystemTime};

use prost::bytes::Bytes;
use uuid::Uuid;

use super::counts::note;
use super::reading::NextMessage;
use super::server::Replica;
use super::track::{Reading, Track};
use crate::log::record::MAX_BYTES;
use crate::log::{Body, EntryRow, Error};
use crate::snapshot::held_row::nanos;
use crate::snapshot::{Doubt, JournalError, Now};

/// How long one append may take, and how long its record may take to come back,
/// before more is done.
const TRY: Duration = Duration::from_secs(2);

/// How long to wait before what may be lost is sent again.
const AGAIN: Duration = Duration::from_millis(250);

/// How often and for how long the same is sent. This is longer than an election of
/// the broker, which takes up to 9 s.
const SENDS: usize = 24;
const SENDING: Duration = Duration::from_secs(12);

/// By how much the clock here may differ from that of the log where the time of
/// reservations is told.
const MAX_SKEW: Duration = Duration::from_millis(500);

/// How long it counts that the clock was wrong.
const TRUSTED: Duration = Duration::from_secs(30);

/// What became of a record.
enum AppendOutcome {
    Ours(SystemTime),
    /// Another message is in its place, where it can never be any more.
    Others,
    Nothing,
}

fn doubt(why: String, mark: Uuid) -> JournalError {
    JournalError::UnknownFate(Doubt { why, mark })
}

impl Replica {
    /// Appends entries as one record where everything was read, and returns once it
    /// was read back.
    pub(super) fn publish(
        &self,
        track: &Track,
        reading: &mut Reading,
        entries: Vec<EntryRow>,
    ) -> Result<(), JournalError> {
        self.check_clock(&entries)?;
        if reading.is_closed {
            // It may be gone by now.
            self.next(track, reading, Duration::ZERO)?;
        }
        if reading.is_closed {
            let why = "the log of the snapshot that was deleted is being removed".to_owned();
            return Err(JournalError::Unreachable(why));
        }
        self.check_answered(track, reading)?;
        let (nonce, body) = self.body(reading, entries);
        let message = self.message(body)?;
        self.land(track, reading, &message, nonce)
    }

    /// Refuses at once what would not be answered either, once a record was not: while
    /// the nats-servers that are left are too few, each change would wait in vain.
    fn check_answered(&self, track: &Track, reading: &mut Reading) -> Result<(), JournalError> {
        if reading.is_unanswered {
            match self.waiting.until(self.log.bounds(&track.name)) {
                Ok(_) | Err(Error::NotFound(_)) => reading.is_unanswered = false,
                Err(error) => return Err(JournalError::Unreachable(error.to_string())),
            }
        }
        Ok(())
    }

    /// Appends that nothing is appended any more.
    pub(super) fn close(&self, track: &Track, reading: &mut Reading) -> Result<(), JournalError> {
        let (nonce, body) = self.body(reading, Vec::new());
        let closes = true;
        let message = self.message(Body { closes, ..body })?;
        self.land(track, reading, &message, nonce)
    }

    /// What a record says with these entries where everything was read, and the nonce
    /// that it is known by.
    fn body(&self, reading: &Reading, entries: Vec<EntryRow>) -> (Uuid, Body) {
        let nonce = Uuid::new_v4();
        let log_id = match reading.place.sequence {
            0 => Uuid::new_v4(),
            _ => reading.place.log_id,
        };
        let body = Body {
            log_id: log_id.as_bytes().to_vec(),
            after: reading.place.sequence,
            chain: reading.place.hash.to_vec(),
            at: self.stamp(reading),
            writer: self.writer.clone(),
            nonce: nonce.as_bytes().to_vec(),
            entries,
            outside: None,
            closes: false,
        };
        (nonce, body)
    }

    /// The message of a record. Entries that are too large for it go to blobs.
    fn message(&self, body: Body) -> Result<Bytes, JournalError> {
        let message = body.write();
        if message.len() <= MAX_BYTES {
            return Ok(message);
        }
        let outside = self.write_entries(&body.entries)?;
        Ok(body.with_entries_in(outside).write())
    }

    /// Sends a message until it is known what became of it.
    fn land(
        &self,
        track: &Track,
        reading: &mut Reading,
        message: &Bytes,
        nonce: Uuid,
    ) -> Result<(), JournalError> {
        let (after, from) = (reading.place.sequence, (self.clock)());
        // Why it is not known whether it has landed, once it may have.
        let mut unknown = None;
        for _ in 0..SENDS {
            if (self.clock)().steady.since(from.steady) > SENDING {
                break;
            }
            let append = self.log.append_if(&track.name, after, message.clone(), TRY);
            let within = self.wait_after(self.waiting.until(append), &mut unknown)?;
            match self.look(track, reading, nonce, within) {
                Ok(AppendOutcome::Ours(at)) => {
                    note(&self.counts.appended);
                    reading.note_own((self.clock)().steady);
                    self.note_skew(at, from.wall, (self.clock)());
                    return Ok(());
                }
                Ok(AppendOutcome::Others) => {
                    note(&self.counts.conflicts);
                    return Err(JournalError::Behind);
                }
                Ok(AppendOutcome::Nothing) => {}
                Err(JournalError::Unreachable(why)) if unknown.is_some() => {
                    if reading.condition.trouble().is_some() {
                        return Err(doubt(why, nonce));
                    }
                    unknown = Some(why);
                    self.waiting.pause(AGAIN);
                }
                Err(error) => return Err(error),
            }
        }
        reading.is_unanswered = true;
        Err(match unknown {
            Some(why) => doubt(why, nonce),
            None => JournalError::Unreachable("its end was not read in time".to_owned()),
        })
    }

    /// How long to wait for a record after it was sent, which came to this. Notes why it
    /// is not known whether it has landed.
    fn wait_after(
        &self,
        sent: Result<u64, Error>,
        unknown: &mut Option<String>,
    ) -> Result<Duration, JournalError> {
        match sent {
            Ok(_) => {
                unknown.get_or_insert_default();
                Ok(TRY)
            }
            Err(Error::Conflict) => Ok(TRY),
            Err(Error::UnknownFate(why)) => {
                note(&self.counts.unknown_fates);
                *unknown = Some(why);
                Ok(AGAIN)
            }
            // What was sent before may be there all the same.
            Err(error) if unknown.is_some() => {
                *unknown = Some(error.to_string());
                Ok(AGAIN)
            }
            Err(Error::Full(_)) => Err(JournalError::LogFull),
            Err(error) => Err(JournalError::Unreachable(error.to_string())),
        }
    }

    /// Looks what is where a record was to be.
    fn look(
        &self,
        track: &Track,
        reading: &mut Reading,
        nonce: Uuid,
        within: Duration,
    ) -> Result<AppendOutcome, JournalError> {
        Ok(match self.next(track, reading, within)? {
            NextMessage::Nothing => AppendOutcome::Nothing,
            NextMessage::Void => AppendOutcome::Others,
            NextMessage::Record(record, message) if record.body.nonce == nonce.as_bytes() => {
                self.take(track, reading, (&record, &message));
                AppendOutcome::Ours(message.at)
            }
            NextMessage::Record(record, message) => {
                self.take_others(track, reading, (*record, message))?;
                AppendOutcome::Others
            }
        })
    }

    /// Refuses to say when reservations end while the clock is wrong. After a
    /// while one attempt shows whether it still is.
    fn check_clock(&self, entries: &[EntryRow]) -> Result<(), JournalError> {
        let tells_time = |entry: &EntryRow| !(entry.held.is_empty() && entry.ended.is_empty());
        if !entries.iter().any(tells_time) {
            return Ok(());
        }
        let now = (self.clock)().steady;
        let skew = *self.skew.lock();
        let wrong = skew.filter(|(skew, at)| *skew > MAX_SKEW && now.since(*at) < TRUSTED);
        let Some((skew, _)) = wrong else {
            return Ok(());
        };
        let skew = humantime::format_duration(skew);
        let why = format!("the clock of this server is {skew} off that of the log");
        Err(JournalError::Unreachable(why))
    }

    /// Notes by how much the clock here differs from that of the log, which took a
    /// message between two moments.
    fn note_skew(&self, taken: SystemTime, from: SystemTime, to: Now) {
        let early = from.duration_since(taken).unwrap_or_default();
        let late = taken.duration_since(to.wall).unwrap_or_default();
        *self.skew.lock() = Some((early.max(late), to.steady));
    }

    /// The time to write into a record: never before that of the last one.
    fn stamp(&self, reading: &Reading) -> i64 {
        reading.at.max(nanos((self.clock)().wall))
    }
}
