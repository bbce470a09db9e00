//! The file as redb sees it, and the faults that an acknowledged update survives.

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use super::error::StoreError;
use super::file::{self, FILE};
use super::journal::StoreCounts;

/// The faults that an acknowledged update survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// A stop of the server. The store writes at least once a second; a killed
    /// process may lose that much.
    None,
    /// A killed process, but not a power cut: the system writes when it sees
    /// fit.
    Relaxed,
    /// A power cut: an update is on the disk before it is acknowledged.
    Full,
}

/// A file that is synced to the disk only where durability demands it.
#[derive(Debug)]
pub(super) struct Disk {
    file: FileBackend,
    syncs: bool,
    counts: Arc<StoreCounts>,
}

impl Disk {
    /// Opens the file of a directory, which must exist: a removed file must not come back empty.
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
        counts: &Arc<StoreCounts>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            file: file::backend(directory, FILE)?,
            syncs: durability == Durability::Full,
            counts: Arc::clone(counts),
        })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let len = self.file.len()?;
        self.counts.bytes.store(len, Ordering::Relaxed);
        Ok(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.counts.bytes.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.syncs {
            true => self.file.sync_data(),
            false => Ok(()),
        }
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
