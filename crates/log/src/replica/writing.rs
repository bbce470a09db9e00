//! Appends records: compares, appends, and waits until they are read back.

use std::time::Duration;

use prost::bytes::Bytes;
use uuid::Uuid;

use super::reading::NextMessage;
use super::server::Replica;
use super::server::note;
use super::server::unreachable;
use super::track::Condition;
use super::track::{Reading, Track};
use crate::record::MAX_BYTES;
use crate::{Body, EntryRow, Error};
use evenkeel_core::snapshot::{JournalError, Moment};

/// The longest time that one append may take, and that its record may then take to come back,
/// before the next step.
const TRY: Duration = Duration::from_secs(2);

/// The pause before a record that may be lost is sent again.
const AGAIN: Duration = Duration::from_millis(250);

/// The number of attempts to send the same record, and the time for all of them. This is longer
/// than an election of the broker, which takes up to 9 s.
const SENDS: usize = 24;
const SENDING: Duration = Duration::from_secs(12);

/// The result of an append.
enum AppendOutcome {
    Ours,
    /// Another message is in the place of the record, which can never land any more.
    Others,
    Nothing,
}

fn doubt(why: String, reading: &Reading) -> JournalError {
    JournalError::UnknownFate {
        why,
        is_untrusted: matches!(reading.condition, Condition::Quarantined(_)),
    }
}

impl Replica {
    /// Appends entries as one record after the last message that was read, and returns once the
    /// record was read back.
    pub(super) fn publish(
        &self,
        track: &Track,
        reading: &mut Reading,
        entries: Vec<EntryRow>,
    ) -> Result<(), JournalError> {
        if reading.closing.is_some() {
            // The log may be gone by now.
            self.next(track, reading, Duration::ZERO)?;
        }
        if reading.closing.is_some() {
            let why = "the log of the snapshot that was deleted is being removed";
            return Err(unreachable(why));
        }
        if reading.is_unanswered {
            // While too few nats-servers are left, each change would wait in vain: it is refused at
            // once.
            match self.waiting.until(self.log.bounds(&track.name)) {
                Ok(bounds) if !bounds.has_majority() => {
                    return Err(unreachable("most of the servers that keep it are away"));
                }
                Ok(_) | Err(Error::NotFound(_)) => reading.is_unanswered = false,
                Err(error) => return Err(error.into()),
            }
        }
        self.append_record(track, reading, entries, false)
    }

    /// Appends a record without entries to find out whether a log ends where it was read up to.
    /// Returns whether it goes on.
    pub(super) fn confirm_end(
        &self,
        track: &Track,
        reading: &mut Reading,
    ) -> Result<bool, JournalError> {
        if reading.closing.is_some() {
            // Nothing is appended after the closing record.
            return Ok(false);
        }
        match self.publish(track, reading, Vec::new()) {
            Ok(()) => Ok(false),
            Err(JournalError::Behind) => Ok(true),
            // The record has no entries that anybody would miss.
            Err(JournalError::UnknownFate {
                why,
                is_untrusted: false,
            }) => Err(unreachable(why)),
            Err(error) => Err(error),
        }
    }

    /// Appends a record with these entries after the last message that was read. After a record
    /// that `closes`, nothing is appended any more.
    pub(super) fn append_record(
        &self,
        track: &Track,
        reading: &mut Reading,
        entries: Vec<EntryRow>,
        closes: bool,
    ) -> Result<(), JournalError> {
        let nonce = Uuid::new_v4();
        let log_id = match reading.place.sequence {
            0 => Uuid::new_v4(),
            _ => reading.place.log_id,
        };
        let mut body = Body {
            log_id: log_id.as_bytes().to_vec(),
            after: reading.place.sequence,
            chain: reading.place.hash.to_vec(),
            writer: self.writer.clone(),
            nonce: nonce.as_bytes().to_vec(),
            entries,
            outside: None,
            closes,
        };
        let mut message = body.write();
        if message.len() > MAX_BYTES {
            let entries = std::mem::take(&mut body.entries);
            body.outside = Some(self.write_entries(entries)?);
            message = body.write();
        }
        self.land(track, reading, &message, nonce)
    }

    /// Sends a message until its fate is known.
    fn land(
        &self,
        track: &Track,
        reading: &mut Reading,
        message: &Bytes,
        nonce: Uuid,
    ) -> Result<(), JournalError> {
        let until = (self.clock)().steady.after(SENDING);
        // The reason why it is not known whether the message has landed, once it may have.
        let mut unknown = None;
        for _ in 0..SENDS {
            if until.since((self.clock)().steady).is_zero() {
                break;
            }
            match self.send(track, reading, (message, nonce, until), &mut unknown) {
                Ok(AppendOutcome::Ours) => {
                    note(&self.counts.appended);
                    *track.full.lock() = None;
                    return Ok(());
                }
                Ok(AppendOutcome::Others) => {
                    note(&self.counts.conflicts);
                    return Err(JournalError::Behind);
                }
                Ok(AppendOutcome::Nothing) => {}
                // The message was sent, whatever is wrong with reading the log.
                Err(JournalError::Unreachable(why) | JournalError::Untrusted(why))
                    if unknown.is_some() =>
                {
                    if reading.condition != Condition::Following {
                        return Err(doubt(why, reading));
                    }
                    unknown = Some(why);
                    self.waiting.pause(AGAIN);
                }
                Err(error) => {
                    if let JournalError::LogFull(why) = &error {
                        *track.full.lock() = Some(((self.clock)().steady, why.clone()));
                    }
                    return Err(error);
                }
            }
        }
        reading.is_unanswered = true;
        Err(match unknown {
            Some(why) => doubt(why, reading),
            None => unreachable("its end was not read in time"),
        })
    }

    /// Sends a message once, and looks which message is in its place. Waits for both until the
    /// moment `until` at most.
    fn send(
        &self,
        track: &Track,
        reading: &mut Reading,
        (message, nonce, until): (&Bytes, Uuid, Moment),
        unknown: &mut Option<String>,
    ) -> Result<AppendOutcome, JournalError> {
        let left = || until.since((self.clock)().steady);
        self.prove_end(track, reading, left())?;
        let (after, within) = (reading.place.sequence, left().min(TRY));
        let append = self
            .log
            .append_if(&track.name, after, message.clone(), within);
        let within = self.wait_after(self.waiting.until(append), unknown)?;
        // Checked before looking: `next` would allow more time for the check.
        self.prove_end(track, reading, left())?;
        self.look(track, reading, nonce, within.min(left()))
    }

    /// Returns how long to wait for a record after this result of sending it. Notes why it is not
    /// known whether the record has landed.
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
            // An earlier attempt may have landed all the same.
            Err(error) if unknown.is_some() => {
                *unknown = Some(error.to_string());
                Ok(AGAIN)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks which message is in the place of a record.
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
            NextMessage::Record(body, message) if body.nonce == nonce.as_bytes() => {
                self.take(track, reading, (&body, &message));
                reading.is_caught_up = true;
                AppendOutcome::Ours
            }
            NextMessage::Record(body, message) => {
                self.take_others(track, reading, (&body, &message))?;
                AppendOutcome::Others
            }
        })
    }
}
