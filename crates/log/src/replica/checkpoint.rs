//! Checkpoints: a snapshot as it was after a message of its log.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;

use super::counts::note;
use super::decode::{self, Decoding};
use super::parts::{Writing, named_parts, part_names};
use super::server::Replica;
use super::track::{CheckpointRow, Track};
use crate::record::{open, seal};
use crate::{Blob, Body, EntryRow, Error, Log};
use evenkeel_core::snapshot::held_row::nanos;
use evenkeel_core::snapshot::{Aside, Change, JournalError, Registry, Restoring, Standing, Whole};

/// The prefix of the names of checkpoints.
const CHECKPOINTS: &str = "checkpoint/";

/// The least time for which the log keeps messages, even those that checkpoints cover.
const KEPT: Duration = Duration::from_secs(600);

/// Returns the prefix of a snapshot's checkpoints. The name of a snapshot may hold any character.
fn folder(name: &str) -> String {
    format!("{CHECKPOINTS}{}/", HEXLOWER.encode(name.as_bytes()))
}

/// The newest checkpoint of each snapshot: the sequence that it covers, and when it
/// was written.
///
/// # Errors
/// [`Error::Unreachable`].
pub async fn newest_checkpoints(
    log: &dyn Log,
) -> Result<HashMap<String, (u64, SystemTime)>, Error> {
    let mut newest = HashMap::new();
    for blob in log.blobs().list(CHECKPOINTS).await? {
        let Some((name, sequence)) = parse(&blob.name) else {
            continue;
        };
        let found = newest.entry(name).or_insert((sequence, blob.at));
        *found = (*found).max((sequence, blob.at));
    }
    Ok(newest)
}

/// The snapshot and the sequence that a checkpoint is of.
fn parse(blob: &str) -> Option<(String, u64)> {
    let (hex, sequence) = blob.strip_prefix(CHECKPOINTS)?.split_once('/')?;
    let name = HEXLOWER.decode(hex.as_bytes()).ok()?;
    Some((String::from_utf8(name).ok()?, sequence.parse().ok()?))
}

impl Replica {
    /// Writes a checkpoint of a snapshot. Returns the sequence that it covers, or `None` if there
    /// is nothing new. Batches wait only while a copy is made.
    ///
    /// # Errors
    /// The checkpoint cannot be written now.
    pub fn checkpoint(&self, name: &str) -> Result<Option<u64>, JournalError> {
        let Some(snapshot) = self.registry().and_then(|registry| registry.get(name).ok()) else {
            return Ok(None);
        };
        let track = self.track(name);
        let copied = snapshot.with_whole(|at, whole| Some((whole, self.place_of(&track, at)?)));
        let copied = copied.flatten();
        let Some((whole, place)) = copied else {
            return Ok(None);
        };
        let copied_at = self.waiting.insist(|| self.log.time(name))?;
        let sequence = place.sequence;
        let newest = self.checkpoints(name)?;
        let newest = newest.first().and_then(|blob| parse(&blob.name));
        if newest.is_some_and(|(_, covered)| sequence <= covered) {
            return Ok(None);
        }
        let entry = self.write_whole(&whole)?;
        let row = CheckpointRow {
            snapshot: Some(entry),
            copied: nanos(copied_at),
            ..place
        };
        let blob = format!("{}{sequence:020}", folder(name));
        self.put(&blob, &seal(&row))?;
        track.checkpoint.store(sequence, Ordering::Relaxed);
        note(&self.counts.checkpoints);
        Ok(Some(sequence))
    }

    /// The place of a snapshot in its log; `None` if there are entries to apply first, or the
    /// snapshot has not begun.
    pub(super) fn place_of(&self, track: &Track, at: Standing<'_>) -> Option<CheckpointRow> {
        let reading = track.reading.lock();
        let is_current = reading.is_of(at) && reading.ready.is_empty();
        let has_begun = !at.epoch.is_empty() && reading.place.sequence > 0;
        (is_current && has_begun).then(|| CheckpointRow::of(&reading))
    }

    /// Writes the objects of a snapshot aside. Returns the entry that makes the snapshot anew.
    pub(super) fn write_whole(&self, whole: &Whole) -> Result<EntryRow, JournalError> {
        let mut writing = Writing::new((self.clock)().steady);
        for batch in whole.state.batches() {
            self.add_batch(&mut writing, &batch)?;
        }
        let aside = self.finish(&mut writing)?;
        let entry = whole.saved.entry(Change::Rewritten(Aside(0)));
        Ok(EntryRow::of(&entry, Some(aside)))
    }

    /// The checkpoints of a snapshot, the newest first.
    pub(super) fn checkpoints(&self, name: &str) -> Result<Vec<Blob>, JournalError> {
        let folder = folder(name);
        let mut listed = self.waiting.insist(|| self.log.blobs().list(&folder))?;
        listed.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        Ok(listed)
    }

    /// Reads the head of a checkpoint.
    pub(super) fn read_checkpoint(&self, blob: &Blob) -> Result<CheckpointRow, Decoding> {
        let bytes = self.waiting.insist(|| self.log.blobs().get(&blob.name))?;
        open(&bytes).map_err(|error| Decoding::Impossible(error.to_string()))
    }

    /// Restores a snapshot from a checkpoint that was made this long ago.
    pub(super) fn restore(
        &self,
        registry: &Registry,
        name: &str,
        (mut row, age): (EntryRow, Duration),
    ) -> Result<Restoring, Decoding> {
        let aside = row.aside.take();
        let mut saved = decode::saved(name, row)?;
        saved.pass(age);
        let mut restoring = registry.restoring(saved);
        let aside = aside.ok_or_else(Decoding::damaged)?;
        self.read_objects(&aside, |batch| restoring.state.add(batch))?;
        Ok(restoring)
    }

    /// Trims the log of a snapshot up to its checkpoint before the last, except for
    /// messages of the last minutes, and drops older checkpoints. Returns the reason if there is
    /// nothing to drop.
    ///
    /// # Errors
    /// The log cannot be reached now.
    pub fn trim(&self, name: &str) -> Result<Option<&'static str>, JournalError> {
        let checkpoints = self.checkpoints(name)?;
        // Both times are of the log's clock, so that no server's wrong clock trims it.
        let now = self.waiting.insist(|| self.log.time(name))?;
        let is_old = |blob: &&Blob| now.duration_since(blob.at).is_ok_and(|age| age >= KEPT);
        if checkpoints.len() < 2 {
            return Ok(Some("it takes two checkpoints"));
        }
        let Some(covering) = checkpoints.iter().skip(1).find(is_old) else {
            return Ok(Some("the checkpoint before the last is not 10 minutes old"));
        };
        let Ok(row) = self.read_checkpoint(covering) else {
            return Ok(Some("the checkpoint before the last is damaged"));
        };
        let first = self.waiting.insist(|| self.log.bounds(name))?.first;
        if row.sequence < first {
            return Ok(Some(
                "all that the checkpoint before the last covers is gone already",
            ));
        }
        let parts = self.trimmed_parts(name, row.sequence)?;
        let trim = || self.log.trim(name, row.sequence + 1);
        self.waiting.insist(trim)?;
        for part in parts {
            self.waiting.until(self.log.blobs().drop_blob(&part))?;
        }
        for blob in checkpoints.iter().filter(|blob| blob.name < covering.name) {
            self.drop_checkpoint(blob)?;
        }
        Ok(None)
    }

    /// The parts in blobs that only records up to a sequence need.
    pub(super) fn trimmed_parts(&self, name: &str, last: u64) -> Result<Vec<String>, JournalError> {
        let first = self.waiting.insist(|| self.log.bounds(name))?.first;
        let mut parts = Vec::new();
        for sequence in first..=last {
            // Another server may have trimmed the message.
            let message = self.read_kept(name, sequence)?;
            let body = message.and_then(|message| Body::read(&message.bytes).ok());
            // A record that no reader applies may have been sent again, with the same parts.
            if let Some(body) = body.filter(|body| body.after + 1 == sequence) {
                parts.extend(named_parts(&body));
            }
        }
        Ok(parts)
    }

    /// Drops a checkpoint, if it is there.
    pub(super) fn drop_checkpoint(&self, blob: &Blob) -> Result<(), Error> {
        let aside = self.read_checkpoint(blob).ok();
        let aside = aside.and_then(|row| row.snapshot?.aside);
        // The head goes last: it names the parts.
        for name in aside.iter().flat_map(part_names) {
            self.waiting.until(self.log.blobs().drop_blob(&name))?;
        }
        self.waiting.until(self.log.blobs().drop_blob(&blob.name))
    }
}
