//! The file as redb sees it, and the faults that an acknowledged update survives.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::error::StoreError;
use super::file;
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
            file: file::backend(directory)?,
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
}
