//! Why a state directory cannot be used.

use std::io;
use std::path::PathBuf;

use crate::snapshot::JournalError;

/// Why a state directory cannot be opened, read or closed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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

impl Error {
    /// What an update is refused with while this holds.
    pub(super) fn refusal(&self) -> JournalError {
        match self {
            Self::Io { source, .. } if is_full(source) => JournalError::NoSpace,
            error => JournalError::Failed(error.to_string()),
        }
    }
}

/// Whether the system says that there is no room: on the disk, in a quota, or
/// for a file of this size.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// What an update is refused with when writing it failed.
pub(super) fn refusal(error: &redb::Error) -> JournalError {
    match error {
        redb::Error::Io(error) if is_full(error) => JournalError::NoSpace,
        error => JournalError::Failed(error.to_string()),
    }
}
