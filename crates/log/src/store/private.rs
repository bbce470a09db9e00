//! Files that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file of the store. Only its owner may read and write it, also if it was there before:
/// it tells what a cluster runs.
pub(super) fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
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
