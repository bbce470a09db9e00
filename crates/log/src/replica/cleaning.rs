//! Drops parts in blobs that no record names, and the logs of snapshots that were deleted.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use data_encoding::HEXLOWER;
use prost::bytes::Bytes;

use super::aside::{PARTS, SeenParts};
use super::server::Replica;
use super::server::unreachable;
use super::track::{Reading, Track};
use crate::{Error, Place};
use evenkeel_core::snapshot::JournalError;

/// The time after which unchanged parts are dropped, by this server's own steady clock: no two
/// clocks are compared. Parts that are being written are younger: see
/// [`super::aside::MAX_WRITING`].
const ORPHANED: Duration = Duration::from_secs(6 * 3_600);

/// The time for which the log of a deleted snapshot is kept after this server has read of the
/// deletion, by the same clock: the other servers read of it meanwhile. One that does not finds the
/// note of [`removed_key`].
const DELETED: Duration = Duration::from_secs(20);

/// Returns the key under which servers note the last log of a snapshot that was removed because the
/// snapshot was deleted.
fn removed_key(name: &str) -> String {
    format!("removed/{}", HEXLOWER.encode(name.as_bytes()))
}

impl Replica {
    /// Drops blobs of a replace that was given up, or whose log is gone. Returns how many.
    ///
    /// # Errors
    /// It cannot be found out now whether a blob is needed. Such blobs are kept.
    pub fn drop_orphans(&self) -> Result<usize, JournalError> {
        let mut orphans = self.old_parts()?;
        if orphans.is_empty() {
            return Ok(0);
        }
        let names = self.waiting.insist(|| self.log.names())?;
        for name in names {
            for parts in self.parts_up_to(&name, u64::MAX)? {
                for part in parts.map_err(unreachable)? {
                    orphans.remove(&part);
                }
            }
        }
        let count = orphans.len();
        self.drop_blobs(orphans)?;
        Ok(count)
    }

    /// The parts of states aside that have not changed for [`ORPHANED`].
    fn old_parts(&self) -> Result<HashSet<String>, JournalError> {
        let listed = self.waiting.insist(|| self.log.blobs().list(PARTS))?;
        let now = (self.clock)().steady;
        let mut found: HashMap<String, Vec<String>> = HashMap::new();
        for blob in listed {
            let whole = blob.rsplit_once('/').map_or("", |(whole, _)| whole);
            found.entry(whole.to_owned()).or_default().push(blob);
        }
        let mut seen = self.seen_parts.lock();
        seen.retain(|whole, _| found.contains_key(whole));
        for (whole, mut names) in found {
            names.sort_unstable();
            let before = seen.get(&whole).filter(|before| before.names == names);
            let since = before.map_or(now, |before| before.since);
            seen.insert(whole, SeenParts { names, since });
        }
        let old = seen.values().filter(|it| now.since(it.since) >= ORPHANED);
        Ok(old.flat_map(|it| it.names.iter().cloned()).collect())
    }

    /// Removes the log of a snapshot that was deleted some time ago, and what only that log needs.
    /// Returns whether it is removed. A record closes the log first, so that nobody appends to it
    /// any more. `may_remove` is asked
    /// right before the removal: only one of several servers removes logs. If two do all the same,
    /// neither removes a log that was made anew under the name.
    ///
    /// # Errors
    /// The log cannot be removed now.
    pub fn remove_deleted(
        &self,
        name: &str,
        may_remove: impl Fn() -> bool,
    ) -> Result<bool, JournalError> {
        let track = self.track(name);
        let end = {
            let reading = track.reading.lock();
            if !self.is_long_deleted(&reading) {
                return Ok(false);
            }
            reading.place.sequence
        };
        let parts = self.parts_up_to(name, end)?;
        let mut reading = track.reading.lock();
        if !self.is_long_deleted(&reading) {
            return Ok(false);
        }
        if reading.closing.is_none() {
            self.append_record(&track, &mut reading, Vec::new(), true)?;
        }
        let Some(last) = reading.closing.clone() else {
            return Ok(false);
        };
        self.drop_blobs(self.checkpoint_blobs(name)?)?;
        if !may_remove() {
            return Ok(false);
        }
        self.drop_blobs(parts.into_iter().flatten().flatten())?;
        self.note_removed(name, reading.place)?;
        match self.waiting.until(self.log.remove_if(name, &last)) {
            // Another server was first.
            Ok(()) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.read_anew(&track, &mut reading);
        Ok(true)
    }

    /// Notes that a log is removed because its snapshot was deleted.
    fn note_removed(&self, name: &str, end: Place) -> Result<(), Error> {
        let key = removed_key(name);
        let before = self.waiting.until(self.log.keys().get(&key))?;
        let revision = before.map(|(_, revision)| revision);
        let log = Bytes::copy_from_slice(end.log_id.as_bytes());
        let set = self.log.keys().set_if(&key, revision, log);
        self.waiting.until(set).map(drop)
    }

    /// Returns whether a log is gone because its snapshot was deleted.
    pub(super) fn was_removed(&self, name: &str, read: Place) -> Result<bool, Error> {
        let key = removed_key(name);
        let noted = self.waiting.until(self.log.keys().get(&key))?;
        Ok(noted.is_some_and(|(log, _)| log[..] == read.log_id.as_bytes()[..]))
    }

    fn is_long_deleted(&self, reading: &Reading) -> bool {
        let is_over = reading.epoch.is_empty() && reading.ready.is_empty();
        let now = (self.clock)().steady;
        let is_old = reading.over.is_some_and(|over| now.since(over) >= DELETED);
        let follows = reading.condition.check().is_ok();
        let is_due = reading.closing.is_some() || is_old;
        follows && is_over && reading.place.sequence > 0 && is_due
    }

    /// Goes on at the beginning of the next log, because this log is gone or will be removed.
    pub(super) fn read_anew(&self, track: &Track, reading: &mut Reading) {
        let mut next = Reading::from(Place::START, &*self.log, &track.name);
        next.succeed(reading);
        *reading = next;
        track.applied.store(0, Ordering::Relaxed);
        track.checkpoint.store(0, Ordering::Relaxed);
    }
}
