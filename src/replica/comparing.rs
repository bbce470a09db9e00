//! Servers compare their snapshots. After the same record of a log, each server copies the snapshot
//! and tells the others its digest. A server with another digest than the others reads the snapshot
//! anew.

use std::sync::Arc;
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use prost::Message;
use prost::bytes::Bytes;

use super::condition::Condition;
use super::counts::note;
use super::digest::{DigestVote, DigestsRow, digest_of};
use super::server::Replica;
use super::track::{Ballot, Copied, Milestone, Reading, Track};
use crate::log::Error;
use crate::snapshot::held_row::nanos;
use crate::snapshot::{Registry, Standing, Whole};

/// The number of rounds that a server waits for the others after it told its digest. Before all
/// have told theirs, the digest of the majority is not known.
const ROUNDS: u8 = 4;

/// The number of attempts to tell a digest while other servers tell theirs.
const TRIES: usize = 8;

/// Returns the key of a snapshot's digests. The name of a snapshot may hold any character.
fn key(name: &str) -> String {
    format!("digest/{}", HEXLOWER.encode(name.as_bytes()))
}

impl Replica {
    /// Notes that servers compare the snapshot after the last record, if that is due. `before` is
    /// the time at which the engine took the record before it. The last record ends with this
    /// entry.
    pub(super) fn note_milestone(
        &self,
        reading: &mut Reading,
        before: Option<SystemTime>,
        (epoch, entry): (&str, u64),
    ) {
        // The engine's times are the same for all readers. The times in records are of many clocks.
        let every = i64::try_from(self.compares_every.as_nanos()).unwrap_or(i64::MAX);
        let period = |at: SystemTime| nanos(at) / every;
        if before.map(period) != reading.taken.map(period) && before.is_some() {
            reading.milestone = Some(Milestone {
                epoch: epoch.to_owned(),
                entry,
                log_id: reading.place.log_id,
                sequence: reading.place.sequence,
            });
        }
    }

    /// Copies a snapshot if it stands at the record after which it is to be compared. The caller
    /// has its turn.
    pub(super) fn copy_if_due(&self, at: Standing<'_>, copy: &dyn Fn() -> Whole) {
        let track = self.track(at.snapshot);
        let (milestone, since) = {
            let mut reading = track.reading.lock();
            let is_here = |it: &mut Milestone| it.is_at(at.epoch, at.sequence);
            (reading.milestone.take_if(is_here), reading.since)
        };
        if let Some(at) = milestone {
            let whole = copy();
            *track.copied.lock() = Some(Copied { at, since, whole });
        }
    }

    /// Copies a snapshot that is due to be compared, even if nobody changes it.
    pub fn copy_for_comparing(&self, name: &str) {
        let track = self.track(name);
        let is_due = track.reading.lock().milestone.is_some();
        if let Some(registry) = self.registry().filter(|_| is_due) {
            // The task that follows the log reports errors of reading it.
            let _ = registry.catch_up(name, false);
        }
    }

    /// Does a round: compares this server's snapshots with those of the others, where that is due.
    pub fn compare_all(&self) {
        for lag in self.lags() {
            let name = &lag.snapshot;
            if let Err(error) = self.compare(name) {
                tracing::debug!(snapshot = name, %error, "not compared with other servers yet");
            }
        }
    }

    /// Does a round for one snapshot.
    ///
    /// # Errors
    /// The log cannot be asked now. The same may be tried again.
    pub fn compare(&self, name: &str) -> Result<(), Error> {
        let Some(registry) = self.registry() else {
            return Ok(());
        };
        let track = self.track(name);
        let copied = track.copied.lock().take();
        if let Some(Copied { at, since, whole }) = copied {
            let vote = DigestVote {
                server: self.writer.clone(),
                digest: digest_of(&whole),
                since,
            };
            let rounds = ROUNDS;
            *track.ballot.lock() = Some(Ballot { at, vote, rounds });
        }
        let Some(ballot) = track.ballot.lock().clone() else {
            return Ok(());
        };
        let is_over = match ballot.rounds {
            0 => {
                if let Some(told) = self.tell(name, &ballot)? {
                    self.judge(&registry, &track, (&ballot, &told));
                }
                true
            }
            // The others may compare a later record by now.
            ROUNDS => self.tell(name, &ballot)?.is_none(),
            _ => false,
        };
        *track.ballot.lock() = match is_over {
            true => None,
            false => Some(Ballot {
                rounds: ballot.rounds - 1,
                ..ballot
            }),
        };
        Ok(())
    }

    /// Tells this server's digest. Returns the votes of all servers about the same record; `None`
    /// if they compare a later one.
    fn tell(&self, name: &str, ballot: &Ballot) -> Result<Option<DigestsRow>, Error> {
        let (key, log_id) = (key(name), ballot.at.log_id.as_bytes());
        for _ in 0..TRIES {
            let found = self.waiting.until(self.log.keys().get(&key))?;
            let (row, revision) = match found {
                Some((bytes, revision)) => (DigestsRow::decode(bytes), Some(revision)),
                None => (Ok(DigestsRow::default()), None),
            };
            // An unreadable row is replaced.
            let mut row = row.unwrap_or_default();
            let is_same_log = row.log_id == log_id;
            if is_same_log && row.sequence > ballot.at.sequence {
                return Ok(None);
            }
            if !is_same_log || row.sequence < ballot.at.sequence {
                row = DigestsRow {
                    log_id: log_id.to_vec(),
                    sequence: ballot.at.sequence,
                    votes: Vec::new(),
                };
            }
            if row.votes.contains(&ballot.vote) {
                return Ok(Some(row));
            }
            row.votes.push(ballot.vote.clone());
            let value = Bytes::from(row.encode_to_vec());
            let set = self.log.keys().set_if(&key, revision, value);
            match self.waiting.until(set) {
                Ok(_) => return Ok(Some(row)),
                Err(Error::Conflict | Error::UnknownFate(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict)
    }

    /// Compares the votes. If this server's digest is in doubt, the snapshot answers nothing more
    /// until it was read anew.
    fn judge(
        &self,
        registry: &Registry,
        track: &Arc<Track>,
        (ballot, told): (&Ballot, &DigestsRow),
    ) {
        if told.agree() {
            return;
        }
        let (name, own) = (&*track.name, &*ballot.vote.server);
        let (sequence, servers) = (told.sequence, told.votes.len());
        note(&self.counts.differences);
        let votes = told.votes.iter();
        let votes: Vec<_> = votes
            .map(|vote| format!("{} {}", vote.server, HEXLOWER.encode(&vote.digest)))
            .collect();
        tracing::error!(snapshot = name, sequence, ?votes, "servers differ");
        if told.doubts(own) {
            let mut reading = track.reading.lock();
            // The snapshot may have been read anew meanwhile.
            if reading.condition == Condition::Following && reading.since == ballot.vote.since {
                let why = format!("of {servers} servers some held something else at {sequence}");
                let _ = self.stop(track, &mut reading, Condition::Quarantined(why));
                drop(reading);
                // The snapshot learns here that it cannot be trusted.
                let _ = registry.catch_up(name, false);
            }
        }
    }
}
