//! Whether a path still leads to the file that was opened by it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::FILE;

/// Where the file of a directory is, and which one it is.
#[derive(Debug)]
pub(super) struct FileLocation {
    path: PathBuf,
    id: Id,
}

#[cfg(unix)]
type Id = (u64, u64);
#[cfg(not(unix))]
type Id = ();

impl FileLocation {
    /// The file that a directory has now.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let path = directory.join(FILE);
        let id = id(&path)?;
        Ok(Self { path, id })
    }

    /// Whether the path still leads to the same file. A removed file can still
    /// be written while it is open, but nobody could find it again.
    pub fn is_kept(&self) -> bool {
        id(&self.path).is_ok_and(|id| id == self.id)
    }
}

#[cfg(unix)]
fn id(path: &Path) -> io::Result<Id> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn id(path: &Path) -> io::Result<Id> {
    fs::metadata(path).map(drop)
}
