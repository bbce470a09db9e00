//! Reads a state directory that no server has open.

use std::path::Path;
use std::time::SystemTime;

use super::error::StoreError;
use super::file::{self, File};
use super::last_commit::{LastCommit, Loss};
use super::restore::{each_part, read_saved};
use super::rows::SnapshotRow;
use evenkeel_core::snapshot::HeldRow;

/// A snapshot in a state directory.
#[derive(Debug, Clone)]
pub struct Described {
    /// The snapshot's name.
    pub name: String,
    /// The snapshot's epoch.
    pub epoch: String,
    /// The snapshot's revision.
    pub revision: i64,
    /// True if the snapshot answers decisions.
    pub synced: bool,
    /// The number of its objects.
    pub objects: u64,
    /// The number of its reservations.
    pub reservations: usize,
    /// The time when its last batch was applied.
    pub updated: SystemTime,
}

/// The content of a state directory.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The directory's snapshots, ascending by name.
    pub snapshots: Vec<Described>,
    /// The acknowledged updates that are missing. If there are any, the next start
    /// begins new epochs.
    pub loss: Option<Loss>,
}

/// Returns the contents of a state directory, after reading and checking everything.
///
/// # Errors
/// [`StoreError::Damaged`] with the first fault, and other errors.
pub fn check(directory: &Path) -> Result<Contents, StoreError> {
    contents(directory, |file, row| each_part(file, row, drop))
}

/// Returns the contents of a directory. `check` judges each snapshot, and returns the fault of a
/// damaged one.
fn contents(
    directory: &Path,
    check: impl Fn(&File, &SnapshotRow) -> Result<(), String>,
) -> Result<Contents, StoreError> {
    let record = LastCommit::open_existing(directory)?;
    let file = file::open_existing(directory)?;
    let mut snapshots = Vec::new();
    for (name, row) in file.snapshots().map_err(StoreError::redb(directory))? {
        let described = check(&file, &row).and_then(|()| describe(&file, &name, &row));
        let damaged = |what: String| StoreError::damaged_snapshot(directory, &name, &what);
        snapshots.push(described.map_err(damaged)?);
    }
    let number = file.number().map_err(StoreError::redb(directory))?;
    // The lock on the record holds the directory until all is read.
    let noted = record.as_ref().map_or(Ok(None), |it| it.noted(directory))?;
    Ok(Contents {
        snapshots,
        loss: Loss::of(number, noted),
    })
}

fn describe(file: &File, name: &str, row: &SnapshotRow) -> Result<Described, String> {
    let saved = read_saved(file, (name, row), HeldRow::whole)?;
    Ok(Described {
        name: saved.name,
        epoch: saved.epoch,
        revision: saved.revision,
        synced: saved.synced,
        objects: row.objects,
        reservations: saved.held.len(),
        updated: saved.updated,
    })
}
