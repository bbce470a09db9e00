//! Writes data that is too large for a record to blobs, and reads it back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::encode_varint;
use uuid::Uuid;

use super::decode::Decoding;
use super::server::Replica;
use crate::entry_row::encode_changes;
use crate::record::{Entries, Hash, compress, decompress, digest};
use crate::{AsideRow, Body, EntryRow};
use evenkeel_core::snapshot::{Aside, Batch, JournalError, Moment};

/// The size of a part before it is compressed, in bytes: a blob takes as much as a message, however
/// badly a part can be compressed.
const PART: usize = 768 << 10;

impl Replica {
    /// Does something with a state aside. The lock of all states aside is not held while the caller
    /// waits for the log.
    pub(super) fn with_aside<T>(
        &self,
        aside: Aside,
        act: impl FnOnce(&mut Writing) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let taken = self.asides.open.lock().remove(&aside);
        let mut writing = taken.ok_or(JournalError::LostAside)?;
        let done = act(&mut writing);
        self.asides.open.lock().insert(aside, writing);
        done
    }

    /// Adds a batch to a state aside.
    pub(super) fn add_batch(
        &self,
        writing: &mut Writing,
        batch: &Batch,
    ) -> Result<(), JournalError> {
        let changes = encode_changes(batch);
        let mut length = Vec::new();
        encode_varint(changes.len() as u64, &mut length);
        self.add(writing, &length)?;
        self.add(writing, &changes)
    }

    /// Adds bytes, and puts the parts that are full.
    fn add(&self, writing: &mut Writing, mut bytes: &[u8]) -> Result<(), JournalError> {
        while let Some((full, rest)) = bytes.split_at_checked(PART - writing.begun.len()) {
            writing.begun.extend_from_slice(full);
            self.put_part(writing)?;
            bytes = rest;
        }
        writing.begun.extend_from_slice(bytes);
        Ok(())
    }

    /// Completes a state aside, and returns the row that names its parts. May be called again.
    pub(super) fn finish(&self, writing: &mut Writing) -> Result<AsideRow, JournalError> {
        if !writing.begun.is_empty() {
            self.put_part(writing)?;
        }
        // The first parts may be dropped before a record names them.
        let is_late = (self.clock)().steady.since(writing.since) >= MAX_WRITING;
        match is_late || !self.has_parts(writing)? {
            true => Err(JournalError::LostAside),
            false => Ok(writing.row()),
        }
    }

    /// Returns whether all written parts are there. Nobody drops parts that a record names, but
    /// before that somebody else may.
    fn has_parts(&self, writing: &Writing) -> Result<bool, JournalError> {
        let folder = part_folder(&writing.uuid);
        let listed = self.waiting.insist(|| self.log.blobs().list(&folder))?;
        Ok(listed.len() == writing.hashes.len())
    }

    fn put_part(&self, writing: &mut Writing) -> Result<(), JournalError> {
        let part = Bytes::from(compress(&writing.begun));
        let name = part_name(&writing.uuid, writing.hashes.len());
        self.put(&name, &part)?;
        writing.hashes.push(digest(&[&part]));
        writing.begun.clear();
        Ok(())
    }

    /// Keeps a blob.
    pub(super) fn put(&self, name: &str, blob: &Bytes) -> Result<(), JournalError> {
        let put = || self.log.blobs().put(name, blob.clone());
        self.waiting.insist(put).map_err(JournalError::from)
    }

    /// Writes entries that are too large for a record.
    pub(super) fn write_entries(&self, entries: Vec<EntryRow>) -> Result<AsideRow, JournalError> {
        let encoded = Entries { entries }.encode_to_vec();
        let mut writing = Writing::new((self.clock)().steady);
        self.add(&mut writing, &encoded)?;
        self.finish(&mut writing)
    }

    /// Reads parts back, in order. It is known only after the last part that all are as written.
    pub(super) fn read_parts(
        &self,
        row: &AsideRow,
        mut each: impl FnMut(Vec<u8>) -> Result<(), Decoding>,
    ) -> Result<(), Decoding> {
        let uuid = Uuid::from_slice(&row.uuid);
        let uuid = uuid.map_err(|_| Decoding::Impossible("its parts have no name".to_owned()))?;
        let mut hashes = Vec::new();
        for index in 0..row.count as usize {
            let name = part_name(&uuid, index);
            let part = self.waiting.insist(|| self.log.blobs().get(&name))?;
            hashes.push(digest(&[&part]));
            each(decompress(&part).map_err(|_| Decoding::damaged())?)?;
        }
        match whole(&hashes)[..] == row.sha256[..] {
            true => Ok(()),
            false => Err(Decoding::damaged()),
        }
    }
}

/// The prefix of the names of parts.
pub const PARTS: &str = "parts/";

/// The longest time between the first part and the record that names it: older parts that no record
/// names are dropped.
pub const MAX_WRITING: Duration = Duration::from_secs(5 * 3_600);

/// The parts that are being written.
#[derive(Default)]
pub struct OpenAsides {
    pub open: Mutex<HashMap<Aside, Writing>>,
    last: AtomicU64,
}

/// Parts that belong together, as this server has seen them.
pub struct SeenParts {
    /// Their names, in order.
    pub names: Vec<String>,
    /// The moment since when the names are the same.
    pub since: Moment,
}

/// Parts that are written one after another.
pub struct Writing {
    /// The uuid in the names of the parts.
    pub uuid: Uuid,
    /// The moment when the first part was begun.
    pub since: Moment,
    /// The hashes of the written parts.
    pub hashes: Vec<Hash>,
    /// The first bytes of the next part.
    pub begun: Vec<u8>,
}

impl Writing {
    /// Begins with no part.
    pub fn new(since: Moment) -> Self {
        Self {
            uuid: Uuid::new_v4(),
            since,
            hashes: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Returns the row that tells where the written parts are.
    pub fn row(&self) -> AsideRow {
        AsideRow {
            uuid: self.uuid.as_bytes().to_vec(),
            count: u32::try_from(self.hashes.len()).expect("parts are large"),
            sha256: whole(&self.hashes).to_vec(),
        }
    }
}

/// The hash of all parts, made from the hash of each part.
pub fn whole(hashes: &[Hash]) -> Hash {
    digest(&[hashes.as_flattened()])
}

/// Returns the prefix of the names of parts that belong together.
pub fn part_folder(uuid: &Uuid) -> String {
    format!("{PARTS}{}/", uuid.simple())
}

/// The name of a part.
pub fn part_name(uuid: &Uuid, index: usize) -> String {
    format!("{}{index}", part_folder(uuid))
}

/// The names of the parts that a record names.
pub fn named_parts(body: &Body) -> impl Iterator<Item = String> {
    let asides = body.entries.iter().filter_map(|entry| entry.aside.as_ref());
    asides.chain(&body.outside).flat_map(part_names)
}

/// The names of all parts.
pub fn part_names(row: &AsideRow) -> Vec<String> {
    let uuid = Uuid::from_slice(&row.uuid).unwrap_or_default();
    let parts = 0..row.count as usize;
    parts.map(|index| part_name(&uuid, index)).collect()
}

impl OpenAsides {
    /// Begins a state aside.
    pub fn open(&self, now: Moment) -> Aside {
        let aside = Aside(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.lock().insert(aside, Writing::new(now));
        aside
    }

    /// Forgets a state aside. Its parts are dropped when they are old, so that giving up waits for
    /// nothing.
    pub fn close(&self, aside: Aside) {
        self.open.lock().remove(&aside);
    }
}
