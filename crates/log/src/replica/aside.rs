//! Writes data that is too large for a record to blobs, and reads it back.

use prost::Message;
use prost::bytes::Bytes;
use uuid::Uuid;

use super::decode::Decoding;
use super::parts::{MAX_WRITING, Writing, part_folder, part_name, whole};
use super::server::Replica;
use crate::entry_row::{PartRow, encode_changes};
use crate::record::{Entries, compress, decompress, digest};
use crate::{AsideRow, EntryRow};
use evenkeel_core::snapshot::{Aside, Batch, JournalError};

/// The approximate size of a part before it is compressed, in bytes.
const PART: usize = 4 << 20;

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
        let batches = vec![encode_changes(batch)];
        // Protobuf messages one after another decode as one message with the items of all their
        // lists.
        self.add(writing, &PartRow { batches }.encode_to_vec())
    }

    /// Adds bytes, and puts a part once there are enough.
    fn add(&self, writing: &mut Writing, bytes: &[u8]) -> Result<(), JournalError> {
        writing.begun.extend_from_slice(bytes);
        match writing.begun.len() >= PART {
            true => self.put_part(writing),
            false => Ok(()),
        }
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
    /// before that the nats-servers or somebody else may.
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
        for part in encoded.chunks(PART) {
            self.add(&mut writing, part)?;
        }
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
