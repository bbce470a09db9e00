//! Looking at a state directory that no server has open.

use std::path::Path;
use std::time::SystemTime;

use super::error::Error;
use super::file::{self, File};
use super::restore::{self, each_part, read_saved};
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

/// The snapshots of a state directory, ascending by name.
///
/// # Errors
/// [`Error`].
pub fn show(directory: &Path) -> Result<Vec<Described>, Error> {
    let file = file::open_existing(directory)?;
    let described = snapshots(directory, &file)?
        .into_iter()
        .map(|(name, row)| describe(directory, &file, &name, &row));
    described.collect()
}

/// As [`show`], having read and checked everything.
///
/// # Errors
/// [`Error::Damaged`] with the first that is wrong, and others.
pub fn check(directory: &Path) -> Result<Vec<Described>, Error> {
    let file = file::open_existing(directory)?;
    let mut all = Vec::new();
    for (name, row) in snapshots(directory, &file)? {
        check_objects(&file, &row).map_err(|what| restore::damaged(directory, &name, &what))?;
        all.push(describe(directory, &file, &name, &row)?);
    }
    Ok(all)
}

/// Judges all objects of a snapshot as a start does; why one is none.
pub(super) fn check_objects(file: &File, row: &SnapshotRow) -> Result<(), String> {
    each_part(file, row, drop)
}

fn snapshots(directory: &Path, file: &File) -> Result<Vec<(String, SnapshotRow)>, Error> {
    let rows = file.snapshots();
    rows.map_err(|error| file::error(directory, error))
}

fn describe(
    directory: &Path,
    file: &File,
    name: &str,
    row: &SnapshotRow,
) -> Result<Described, Error> {
    let saved = read_saved(file, name, row);
    let saved = saved.map_err(|what| restore::damaged(directory, name, &what))?;
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
