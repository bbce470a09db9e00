//! Checkpoints: a snapshot as it was after a message of its log.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use prost::Message;

use super::aside::{PARTS, Writing, named_parts};
use super::server::Replica;
use super::server::note;
use super::track::{CheckpointRow, Track};
use crate::entry_row::encode_changes;
use crate::record::{open, seal};
use crate::{AsideRow, Body, EntryRow, Error, Log, Unreadable};
use evenkeel_core::snapshot::held_row::{nanos, time};
use evenkeel_core::snapshot::journal::{Standing, Whole};
use evenkeel_core::snapshot::{Aside, Change, Entry, JournalError};

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
        if let Some((name, sequence)) = parse(&blob) {
            let found = newest.entry(name).or_insert((sequence, String::new()));
            *found = (*found).clone().max((sequence, blob));
        }
    }
    let mut told = HashMap::new();
    for (name, (sequence, blob)) in newest {
        let head = log.blobs().get(&blob).await?;
        let head: Option<CheckpointRow> = head.and_then(|(head, _)| open(&head).ok());
        told.insert(name, (sequence, time(head.unwrap_or_default().copied)));
    }
    Ok(told)
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
        let copied_at = self.waiting.insist(|| self.log.bounds(name))?.now;
        let sequence = place.sequence;
        let newest = self.checkpoints(name)?;
        let newest = newest.first().and_then(|blob| parse(blob));
        if newest.is_some_and(|(_, covered)| sequence <= covered) {
            return Ok(None);
        }
        let blob = format!("{}{sequence:020}", folder(name));
        let mut writing = Writing::new(&format!("{blob}/"), (self.clock)().steady);
        let entry = EntryRow::of(&entry_of(&whole), None);
        self.add_framed(&mut writing, &entry.encode_to_vec())?;
        let row = CheckpointRow {
            snapshot: Some(self.write_objects(writing, &whole)?),
            copied: copied_at.map_or(0, nanos),
            ..place
        };
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

    /// Writes a snapshot aside. Returns the entry that makes the snapshot anew.
    pub(super) fn write_whole(&self, whole: &Whole) -> Result<EntryRow, JournalError> {
        let writing = Writing::new(PARTS, (self.clock)().steady);
        let objects = self.write_objects(writing, whole)?;
        Ok(EntryRow::of(&entry_of(whole), Some(objects)))
    }

    /// Completes a state aside with the objects of a snapshot.
    fn write_objects(&self, mut writing: Writing, whole: &Whole) -> Result<AsideRow, JournalError> {
        for batch in whole.state.batches() {
            self.add_framed(&mut writing, &encode_changes(&batch))?;
        }
        self.finish(&mut writing)
    }

    /// The checkpoints of a snapshot, the newest first.
    pub(super) fn checkpoints(&self, name: &str) -> Result<Vec<String>, JournalError> {
        let mut listed = self.checkpoint_blobs(name)?;
        listed.retain(|blob| parse(blob).is_some());
        listed.reverse();
        Ok(listed)
    }

    /// The blobs of all checkpoints of a snapshot, also of those that were not completed: the oldest
    /// first, and each before its parts.
    pub(super) fn checkpoint_blobs(&self, name: &str) -> Result<Vec<String>, JournalError> {
        let folder = folder(name);
        let mut listed = self.waiting.insist(|| self.log.blobs().list(&folder))?;
        listed.sort_unstable();
        Ok(listed)
    }

    /// Reads the head of a checkpoint.
    pub(super) fn read_checkpoint(&self, blob: &str) -> Result<CheckpointRow, Unreadable> {
        open(&self.blob(blob)?).map_err(|error| Unreadable::Damaged(error.to_string()))
    }

    /// Trims the log of a snapshot up to its checkpoint before the last, except for
    /// messages of the last minutes, and drops older checkpoints. Returns the reason if there is
    /// nothing to drop.
    ///
    /// # Errors
    /// The log cannot be reached now.
    pub fn trim(&self, name: &str) -> Result<Option<&'static str>, JournalError> {
        let checkpoints = self.checkpoints(name)?;
        let bounds = self.waiting.insist(|| self.log.bounds(name))?;
        // Both times are of the log's clock, so that no server's wrong clock trims it.
        let is_old = |row: &CheckpointRow| {
            let age = bounds.now?.duration_since(time(row.copied)).ok();
            age.filter(|age| *age >= KEPT)
        };
        if checkpoints.len() < 2 {
            return Ok(Some("it takes two checkpoints"));
        }
        let mut former = checkpoints.iter().skip(1).filter_map(|blob| {
            let row = self.read_checkpoint(blob).ok()?;
            Some((blob, row))
        });
        let Some((covering, row)) = former.find(|(_, row)| is_old(row).is_some()) else {
            return Ok(Some("the checkpoint before the last is not 10 minutes old"));
        };
        if row.sequence < bounds.first {
            return Ok(Some(
                "all that the checkpoint before the last covers is gone already",
            ));
        }
        let parts = self.parts_up_to(name, row.sequence)?;
        let trim = || self.log.trim(name, row.sequence + 1);
        self.waiting.insist(trim)?;
        self.drop_blobs(parts.into_iter().flatten().flatten())?;
        let blobs = self.checkpoint_blobs(name)?;
        self.drop_blobs(blobs.into_iter().take_while(|blob| blob < covering))?;
        Ok(None)
    }

    /// The parts in blobs that each record up to a sequence needs, or the reason why the record cannot
    /// be read.
    pub(super) fn parts_up_to(
        &self,
        name: &str,
        last: u64,
    ) -> Result<Vec<Result<Vec<String>, Unreadable>>, JournalError> {
        let bounds = match self.waiting.insist(|| self.log.bounds(name)) {
            Err(Error::NotFound(_)) => return Ok(Vec::new()),
            bounds => bounds?,
        };
        let mut parts = Vec::new();
        for sequence in bounds.first..=last.min(bounds.last) {
            // Another server may have trimmed the message.
            let Some(message) = self.read_kept(name, sequence)? else {
                continue;
            };
            match Body::read(&message.bytes) {
                Ok(body) if body.after + 1 == sequence => {
                    parts.push(Ok(named_parts(&body).collect()))
                }
                // A record that no reader applies may have been sent again, with the same parts.
                Ok(_) => {}
                Err(why) => parts.push(Err(why)),
            }
        }
        Ok(parts)
    }
}

/// The entry that makes a snapshot anew.
fn entry_of(whole: &Whole) -> Entry {
    Entry {
        after: whole.saved.clone(),
        change: Change::Rewritten(Aside(0)),
        ended: Vec::new(),
    }
}
