//! Writes data that is too large for a record to blobs, and reads it back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::encode_varint;
use uuid::Uuid;

use super::decode::damaged_blobs;
use super::server::Replica;
use crate::record::{Entries, Hash, compress, decompress, digest};
use crate::{AsideRow, Body, EntryRow, Error, Unreadable};
use evenkeel_core::snapshot::{Aside, JournalError, Moment};

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

    /// Adds bytes, with their length before them.
    pub(super) fn add_framed(
        &self,
        writing: &mut Writing,
        bytes: &[u8],
    ) -> Result<(), JournalError> {
        let mut length = Vec::new();
        encode_varint(bytes.len() as u64, &mut length);
        self.add(writing, &length)?;
        self.add(writing, bytes)
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
        let list = || self.log.blobs().list(&writing.folder);
        Ok(self.waiting.insist(list)?.len() == writing.hashes.len())
    }

    fn put_part(&self, writing: &mut Writing) -> Result<(), JournalError> {
        let part = Bytes::from(compress(&writing.begun));
        let name = format!("{}{}", writing.folder, writing.hashes.len());
        self.put(&name, &part)?;
        writing.hashes.push(digest(&[&part]));
        writing.begun.clear();
        Ok(())
    }

    /// Keeps a blob.
    pub(super) fn put(&self, name: &str, blob: &Bytes) -> Result<(), JournalError> {
        let put = || self.log.blobs().set_if(name, None, blob.clone());
        match self.waiting.insist(put) {
            // It is there already: an earlier attempt may have got no answer.
            Ok(_) | Err(Error::Conflict) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a blob.
    pub(super) fn blob(&self, name: &str) -> Result<Bytes, Error> {
        self.waiting.insist(|| {
            Box::pin(async move {
                let found = self.log.blobs().get(name).await?;
                let blob = found.map(|(blob, _)| blob);
                blob.ok_or_else(|| Error::NotFound(name.to_owned()))
            })
        })
    }

    /// Drops blobs.
    pub(super) fn drop_blobs(&self, names: impl IntoIterator<Item = String>) -> Result<(), Error> {
        let mut names = names.into_iter();
        names.try_for_each(|name| self.waiting.until(self.log.blobs().remove(&name)))
    }

    /// Writes entries that are too large for a record.
    pub(super) fn write_entries(&self, entries: Vec<EntryRow>) -> Result<AsideRow, JournalError> {
        let encoded = Entries { entries }.encode_to_vec();
        let mut writing = Writing::new(PARTS, (self.clock)().steady);
        self.add(&mut writing, &encoded)?;
        self.finish(&mut writing)
    }

    /// Reads parts back, in order. It is known only after the last part that all are as written.
    pub(super) fn read_parts(
        &self,
        row: &AsideRow,
        mut each: impl FnMut(Vec<u8>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let mut hashes = Vec::new();
        for name in row.parts() {
            let part = self.blob(&name)?;
            hashes.push(digest(&[&part]));
            each(decompress(&part).map_err(|_| damaged_blobs())?)?;
        }
        match whole(&hashes)[..] == row.sha256[..] {
            true => Ok(()),
            false => Err(damaged_blobs()),
        }
    }
}

/// The prefix of the names of parts, but for those of checkpoints.
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
    /// The start of the names of the parts.
    pub folder: String,
    /// The moment when the first part was begun.
    pub since: Moment,
    /// The hashes of the written parts.
    pub hashes: Vec<Hash>,
    /// The first bytes of the next part.
    pub begun: Vec<u8>,
}

impl Writing {
    /// Begins with no part. The names of the parts begin with this.
    pub fn new(prefix: &str, since: Moment) -> Self {
        Self {
            folder: format!("{prefix}{}/", Uuid::new_v4().simple()),
            since,
            hashes: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Returns the row that tells where the written parts are.
    pub fn row(&self) -> AsideRow {
        AsideRow {
            folder: self.folder.clone(),
            count: u32::try_from(self.hashes.len()).expect("parts are large"),
            sha256: whole(&self.hashes).to_vec(),
        }
    }
}

/// The hash of all parts, made from the hash of each part.
pub fn whole(hashes: &[Hash]) -> Hash {
    digest(&[hashes.as_flattened()])
}

/// The names of the parts that a record names.
pub fn named_parts(body: &Body) -> impl Iterator<Item = String> {
    let asides = body.entries.iter().filter_map(|entry| entry.aside.as_ref());
    asides.chain(&body.outside).flat_map(AsideRow::parts)
}

impl OpenAsides {
    /// Begins a state aside.
    pub fn open(&self, now: Moment) -> Aside {
        let aside = Aside(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.lock().insert(aside, Writing::new(PARTS, now));
        aside
    }

    /// Forgets a state aside. Its parts are dropped when they are old, so that giving up waits for
    /// nothing.
    pub fn close(&self, aside: Aside) {
        self.open.lock().remove(&aside);
    }
}
