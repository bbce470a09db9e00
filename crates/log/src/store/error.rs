//! The reasons why a state directory cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use evenkeel_core::snapshot::JournalError;

/// The reason why a state directory cannot be opened, read or closed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory has files, but none of a server.
    #[error("{0} is not a state directory of evenkeel: it has other files; name an empty one")]
    Foreign(PathBuf),
    /// Another process has the directory open.
    #[error("{0} is in use by another process; a state directory belongs to one server")]
    InUse(PathBuf),
    /// A later version wrote the directory.
    #[error("{directory} has format {found}, and this version knows {known}; use a newer one")]
    Newer {
        /// The directory.
        directory: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// The content of the directory is damaged.
    #[error("{directory} is damaged: {what}; name an empty directory, and feed again")]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The fault.
        what: String,
    },
    /// The disk or the file system refuses.
    #[error("cannot use {directory}: {source}")]
    Io {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl StoreError {
    /// Returns a function that makes an error of the operating system into one about a directory.
    pub(super) fn io(directory: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Io {
            directory: directory.to_owned(),
            source,
        }
    }

    /// Returns a function that makes an error of redb into one about a directory.
    pub(super) fn redb<E: Into<redb::Error>>(directory: &Path) -> impl Fn(E) -> Self {
        |error| match error.into() {
            // redb calls bytes that are not its own invalid data. A file that was cut off ends early.
            redb::Error::Io(source)
                if !matches!(
                    source.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Self::io(directory)(source)
            }
            other => Self::damaged(directory, other.to_string()),
        }
    }

    pub(super) fn damaged(directory: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            directory: directory.to_owned(),
            what: what.into(),
        }
    }

    pub(super) fn damaged_snapshot(directory: &Path, name: &str, what: &str) -> Self {
        Self::damaged(directory, format!("snapshot {name:?}: {what}"))
    }

    /// Returns the error by which updates are refused while this one holds.
    pub(super) fn refusal(&self) -> JournalError {
        match self {
            Self::Io { source, .. } if is_full(source) => JournalError::NoSpace,
            error => JournalError::Failed(error.to_string()),
        }
    }
}

/// Returns whether the system says that there is no room: on the disk, in a quota, or
/// for a file of this size.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Returns the error of an update when writing it failed.
pub(super) fn refusal(error: &redb::Error) -> JournalError {
    match error {
        redb::Error::Io(error) if is_full(error) => JournalError::NoSpace,
        error => JournalError::Failed(error.to_string()),
    }
}
