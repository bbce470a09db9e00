//! The file of a state directory: it is created, opened and read here. It also says which process has
//! it open, and whether that closed it.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::{fs, io};

use prost::Message;
use redb::backends::FileBackend;
use redb::{
    Builder, Database, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend,
    TableHandle, WriteTransaction,
};
use uuid::Uuid;

use super::commit;
use super::disk::Durability;
use super::error::StoreError;
use super::rows::{
    EncodedEntry, EntryEffect, FACTS, HELD, OBJECTS, SNAPSHOTS, SnapshotRow, objects_name, read,
};
use evenkeel_core::snapshot;
use evenkeel_core::snapshot::Aside;

/// Name of the file in a state directory.
pub const FILE: &str = "evenkeel.redb";

/// The name of the file while it is created.
const DRAFT: &str = "evenkeel.redb.new";

/// The format that this version writes and reads.
const FORMAT: u32 = 1;

/// The name of the fact that contains the format.
const FORMAT_FACT: &str = "format";

/// The most bytes of pages that are kept in memory: moving batches under the keys of their objects
/// reads and writes nearly all pages of a state.
const CACHE_BYTES: usize = 256 << 20;

/// An open file.
pub(super) struct File(Database);

/// Makes sure that a directory has a file, unless it contains foreign files.
pub(super) fn prepare(directory: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(directory).map_err(StoreError::io(directory))?;
    if directory.join(FILE).exists() {
        return Ok(());
    }
    check_free(directory)?;
    let draft = directory.join(DRAFT);
    create(directory, &draft)?.close(directory)?;
    publish(directory, &draft)
}

/// Creates a new empty file.
fn create(directory: &Path, path: &Path) -> Result<File, StoreError> {
    if path.exists() {
        fs::remove_file(path).map_err(StoreError::io(directory))?;
    }
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let empty = open_private(options, path).map_err(StoreError::io(directory))?;
    let backend = FileBackend::new(empty).map_err(StoreError::redb(directory))?;
    let database = Builder::new()
        .set_cache_size(CACHE_BYTES)
        .create_with_backend(backend)
        .map_err(StoreError::redb(directory))?;
    let file = File(database);
    let begun = file.transact(|transaction| {
        let format = FORMAT.to_le_bytes();
        let mut facts = transaction.open_table(FACTS)?;
        facts.insert(FORMAT_FACT, &format[..])?;
        transaction.open_table(SNAPSHOTS)?;
        transaction.open_table(HELD)?;
        Ok(())
    });
    begun.map_err(StoreError::redb(directory))?;
    Ok(file)
}

/// Gives a finished file its name.
fn publish(directory: &Path, draft: &Path) -> Result<(), StoreError> {
    let publish = || {
        fs::rename(draft, directory.join(FILE))?;
        // The name is on the disk only once the directory is synced.
        fs::File::open(directory)?.sync_all()
    };
    publish().map_err(StoreError::io(directory))
}

/// Refuses a directory with files that are not the store's.
fn check_free(directory: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(directory).map_err(StoreError::io(directory))?;
    for entry in entries {
        let entry = entry.map_err(StoreError::io(directory))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A mounted file system has a `lost+found`.
        if name != DRAFT && name != "lost+found" {
            return Err(StoreError::Foreign(directory.to_owned()));
        }
    }
    Ok(())
}

/// The file of a directory, which must be there, as redb sees it. It is locked.
pub(super) fn backend(directory: &Path) -> Result<FileBackend, StoreError> {
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).write(true);
    let file = open_private(options, &directory.join(FILE)).map_err(StoreError::io(directory))?;
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse(directory.to_owned())),
        Err(fs::TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
            return Err(StoreError::io(directory)(error));
        }
        // Not all file systems have locks.
        Ok(()) | Err(_) => {}
    }
    FileBackend::new(file).map_err(StoreError::redb(directory))
}

impl File {
    /// Opens an existing file and verifies all of it.
    pub fn open(directory: &Path, backend: impl StorageBackend) -> Result<Self, StoreError> {
        let len = backend.len().map_err(StoreError::io(directory))?;
        if len == 0 {
            return Err(StoreError::damaged(directory, format!("{FILE} is empty")));
        }
        // redb may panic on bytes that it did not write.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Builder::new()
                .set_cache_size(CACHE_BYTES)
                .set_check_integrity_on_open(true)
                .create_with_backend(backend)
        }));
        let opened =
            opened.map_err(|_| StoreError::damaged(directory, format!("{FILE} makes no sense")))?;
        let file = Self(opened.map_err(StoreError::redb(directory))?);
        file.check_format(directory)?;
        file.tidy_up().map_err(StoreError::redb(directory))?;
        Ok(file)
    }

    /// Runs one transaction, which succeeds as a whole or has no effect.
    pub fn transact<T>(
        &self,
        act: impl FnOnce(&mut WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let mut transaction = self.0.begin_write()?;
        let done = act(&mut transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    pub fn begin_read(&self) -> Result<ReadTransaction, redb::Error> {
        Ok(self.0.begin_read()?)
    }

    fn check_format(&self, directory: &Path) -> Result<(), StoreError> {
        let read = || -> Result<Option<Vec<u8>>, redb::Error> {
            let facts = match self.begin_read()?.open_table(FACTS) {
                Ok(facts) => facts,
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            Ok(facts.get(FORMAT_FACT)?.map(|v| v.value().to_vec()))
        };
        let format = read().map_err(StoreError::redb(directory))?;
        let format = format.ok_or_else(|| {
            StoreError::damaged(directory, format!("{FILE} is of another program"))
        })?;
        let found = <[u8; 4]>::try_from(&format[..]).map_or(0, u32::from_le_bytes);
        match found {
            FORMAT => Ok(()),
            0 => Err(StoreError::damaged(directory, "its format is not a number")),
            _ => Err(StoreError::Newer {
                directory: directory.to_owned(),
                found,
                known: FORMAT,
            }),
        }
    }

    /// Moves all batches under the keys of their objects, and drops states aside that became no
    /// snapshot.
    fn tidy_up(&self) -> Result<(), redb::Error> {
        let snapshots = self.snapshots()?;
        for (name, row) in snapshots.iter().filter(|(_, row)| row.pending > 0) {
            self.settle(name, row)?;
        }
        let names = snapshots
            .iter()
            .map(|(_, row)| objects_name(Aside(row.aside)));
        let used: HashSet<String> = names.collect();
        let is_left = |name: &str| name.starts_with(OBJECTS) && !used.contains(name);
        let read = self.begin_read()?;
        let tables = read.list_tables()?;
        let left: Vec<_> = tables.filter(|table| is_left(table.name())).collect();
        drop(read);
        if left.is_empty() {
            return Ok(());
        }
        self.transact(|transaction| {
            for table in left {
                transaction.delete_table(table)?;
            }
            Ok(())
        })
    }

    /// Moves the batches of a snapshot under the keys of their objects.
    fn settle(&self, name: &str, row: &SnapshotRow) -> Result<(), redb::Error> {
        let mut row = row.clone();
        self.transact(|transaction| {
            commit::settle(transaction, &mut row).map_err(|error| match error {
                redb::Error::Corrupted(what) => corrupted(name, &what),
                error => error,
            })?;
            row.put(transaction, name)
        })
    }

    /// The rows of all snapshots, ascending by name.
    pub fn snapshots(&self) -> Result<Vec<(String, SnapshotRow)>, redb::Error> {
        let snapshots = self.begin_read()?.open_table(SNAPSHOTS)?;
        let mut all = Vec::new();
        for row in snapshots.iter()? {
            let (name, value) = row?;
            let name = name.value().to_owned();
            let row = SnapshotRow::read(value.value());
            let row = row.map_err(|what| corrupted(&name, &what))?;
            all.push((name, row));
        }
        Ok(all)
    }

    /// A number that no state aside has had.
    pub fn next_aside(&self) -> Result<u64, redb::Error> {
        let rows = self.snapshots()?;
        let largest = rows.iter().map(|(_, row)| row.aside).max();
        Ok(largest.map_or(1, |largest| largest + 1))
    }

    /// Returns whether the file holds these entries of one snapshot.
    pub fn holds(&self, entries: &[EncodedEntry]) -> bool {
        let Some(last) = entries.last() else {
            return true;
        };
        let Ok(rows) = self.snapshots() else {
            return false;
        };
        let row = rows.iter().find(|(name, _)| *name == last.snapshot);
        match (&last.effect, row) {
            (EntryEffect::Delete, row) => row.is_none(),
            (_, Some((_, row))) => {
                let (row, last) = (&row.entry, &last.row.entry);
                row.epoch == last.epoch && row.sequence >= last.sequence
            }
            (_, None) => false,
        }
    }

    /// Closes the file. All of it is on the disk then.
    pub fn close(self, directory: &Path) -> Result<(), StoreError> {
        self.0.close().map_err(StoreError::redb(directory))?;
        for name in [FILE, DRAFT] {
            let path: PathBuf = directory.join(name);
            if path.exists() {
                let synced = fs::File::open(path).and_then(|file| file.sync_all());
                synced.map_err(StoreError::io(directory))?;
            }
        }
        Ok(())
    }
}

/// Returns the error that a snapshot is damaged.
fn corrupted(snapshot: &str, what: &str) -> redb::Error {
    redb::Error::Corrupted(format!("snapshot {snapshot:?}: {what}"))
}

const SESSION_FACT: &str = "session";

/// A process that had the file open, or has it.
#[derive(Clone, PartialEq, Message)]
struct SessionRow {
    /// True if the process has not closed the file.
    #[prost(bool, tag = "1")]
    open: bool,
    /// True if updates that it acknowledged may be lost when it is killed.
    #[prost(bool, tag = "2")]
    buffers: bool,
    /// True if updates that it acknowledged may be lost in a power cut.
    #[prost(bool, tag = "3")]
    relaxed: bool,
    /// Identifies the boot of the system in which the process ran; empty when unknown.
    #[prost(string, tag = "4")]
    boot: String,
}

impl File {
    /// Records that a process has the file open, and its durability. All epochs are renewed if
    /// acknowledged updates may have been lost, because an earlier process did not close the file:
    /// no revision of an epoch may stand for two states.
    pub fn begin_session(&self, durability: Durability) -> Result<(), redb::Error> {
        let boot = snapshot::clock::boot().unwrap_or_default();
        self.transact(|transaction| {
            let mut facts = transaction.open_table(FACTS)?;
            let last = facts.get(SESSION_FACT)?.map(|row| read(row.value()));
            let last: Option<SessionRow> = last.transpose().map_err(redb::Error::Corrupted)?;
            let last = last.unwrap_or_default();
            let rebooted = boot.is_empty() || last.boot != boot;
            if last.open && (last.buffers || (last.relaxed && rebooted)) {
                tracing::warn!("the last server was not stopped and may have lost updates");
                renew_epochs(transaction, self.snapshots()?)?;
            }
            let session = SessionRow {
                open: true,
                buffers: durability == Durability::None,
                relaxed: durability != Durability::Full,
                boot,
            };
            facts.insert(SESSION_FACT, &session.encode_to_vec()[..])?;
            Ok(())
        })
    }

    /// Records that the file is closed, and closes it.
    pub fn end_session(self, directory: &Path) -> Result<(), StoreError> {
        let ended = self.transact(|transaction| {
            let mut facts = transaction.open_table(FACTS)?;
            let session = SessionRow::default().encode_to_vec();
            facts.insert(SESSION_FACT, &session[..])?;
            Ok(())
        });
        ended.map_err(StoreError::redb(directory))?;
        self.close(directory)
    }
}

/// Renews all epochs.
fn renew_epochs(
    transaction: &WriteTransaction,
    all: Vec<(String, SnapshotRow)>,
) -> Result<(), redb::Error> {
    for (name, mut row) in all {
        row.entry.epoch = Uuid::new_v4().to_string();
        tracing::warn!(snapshot = %name, epoch = %row.entry.epoch, "began a new epoch");
        row.put(transaction, &name)?;
    }
    Ok(())
}

/// Opens a file of the store. Only its owner may read and write it, also if it was there before:
/// it tells what a cluster runs.
fn open_private(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        // A server that may use a file of another owner cannot change who else may.
        let _ = file.set_permissions(private);
    }
    Ok(file)
}
