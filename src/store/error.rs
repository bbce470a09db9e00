//! Why a state directory cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::snapshot::JournalError;

/// Why a state directory cannot be opened, read or closed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It has files, but none of a server.
    #[error("{0} is not a state directory of evenkeel: it has other files; name an empty one")]
    Foreign(PathBuf),
    /// There is nothing to look at.
    #[error("{0} has no state of evenkeel")]
    Nothing(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use by another process; a state directory belongs to one server")]
    InUse(PathBuf),
    /// A later version wrote it.
    #[error("{directory} has format {found}, and this version knows {known}; use a newer one")]
    Newer {
        /// The directory.
        directory: PathBuf,
        /// The format that it has.
        found: u32,
        /// The newest that this version knows.
        known: u32,
    },
    /// What it holds makes no sense.
    #[error(
        "{directory} is damaged: {what}; `evenkeel state repair {directory}` keeps what is whole"
    )]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The disk or the file system refuses.
    #[error("cannot use {directory}: {source}")]
    Io {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// Returns what the system says, about a directory.
    pub(super) fn io(directory: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Io {
            directory: directory.to_owned(),
            source,
        }
    }

    /// Returns what redb says, about a directory.
    pub(super) fn redb<E: Into<redb::Error>>(directory: &Path) -> impl Fn(E) -> Self {
        |error| match error.into() {
            redb::Error::DatabaseAlreadyOpen => Self::InUse(directory.to_owned()),
            // redb calls bytes that are not its own invalid data.
            redb::Error::Io(source) if source.kind() != io::ErrorKind::InvalidData => {
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

    /// Returns what is wrong, of a snapshot.
    pub(super) fn damaged_snapshot(directory: &Path, name: &str, what: &str) -> Self {
        Self::damaged(directory, format!("snapshot {name:?}: {what}"))
    }

    /// Returns what an update is refused with while this holds.
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

/// Returns what an update is refused with when writing it failed.
pub(super) fn refusal(error: &redb::Error) -> JournalError {
    match error {
        redb::Error::Io(error) if is_full(error) => JournalError::NoSpace,
        error => JournalError::Failed(error.to_string()),
    }
}
