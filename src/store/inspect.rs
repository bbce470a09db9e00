//! Looking at a state directory that no server has open.

use std::path::Path;
use std::time::SystemTime;

use super::error::StoreError;
use super::file::{self, File};
use super::last_commit::{LastCommit, Loss};
use super::restore::{each_part, read_saved};
use super::rows::SnapshotRow;

/// A snapshot in a state directory.
#[derive(Debug, Clone)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its epoch.
    pub epoch: String,
    /// Its revision.
    pub revision: i64,
    /// Whether decisions are answered.
    pub synced: bool,
    /// How many objects it has.
    pub objects: u64,
    /// How many reservations it has.
    pub reservations: usize,
    /// When its last batch was applied.
    pub updated: SystemTime,
}

/// What is in a state directory.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Its snapshots, ascending by name.
    pub snapshots: Vec<Described>,
    /// What is missing of the acknowledged updates. If anything is, the next
    /// start begins new epochs.
    pub loss: Option<Loss>,
}

/// Returns what a state directory has in it.
///
/// # Errors
/// [`StoreError`].
pub fn show(directory: &Path) -> Result<Contents, StoreError> {
    contents(directory, |_, _| Ok(()))
}

/// As [`show`], having read and checked everything.
///
/// # Errors
/// [`StoreError::Damaged`] with the first that is wrong, and others.
pub fn check(directory: &Path) -> Result<Contents, StoreError> {
    contents(directory, |file, row| each_part(file, row, drop))
}

/// Returns what a directory has, each snapshot judged by `check`: why it is none.
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
    // It is held, and with it the directory, until all is read.
    let noted = record.as_ref().map_or(Ok(None), |it| it.noted(directory))?;
    Ok(Contents {
        snapshots,
        loss: Loss::of(number, noted),
    })
}

fn describe(file: &File, name: &str, row: &SnapshotRow) -> Result<Described, String> {
    let saved = read_saved(file, name, row)?;
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
