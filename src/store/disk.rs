//! The file as redb sees it.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use super::Durability;
use super::counts::Counts;
use super::error::Error;
use super::file::{FILE, io_error};

/// A file that is synced to the disk only where that was promised.
#[derive(Debug)]
pub(super) struct Disk {
    file: FileBackend,
    syncs: bool,
    counts: Arc<Counts>,
}

impl Disk {
    /// Opens the file of a directory, which is created if need be.
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
        counts: &Arc<Counts>,
    ) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(FILE))
            .map_err(|source| io_error(directory, source))?;
        let file = FileBackend::new(file).map_err(|error| super::file::error(directory, error))?;
        Ok(Self {
            file,
            syncs: durability == Durability::Full,
            counts: Arc::clone(counts),
        })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let len = self.file.len()?;
        self.counts.note_bytes(len);
        Ok(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.counts.note_bytes(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
