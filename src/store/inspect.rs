//! Looking at a state directory that no server has open.

use std::path::Path;
use std::time::SystemTime;

use super::error::Error;
use super::file::{self, File, io_error};
use super::last_commit::{LastCommit, Loss};
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

/// What is in a state directory.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its snapshots, ascending by name.
    pub snapshots: Vec<Described>,
    /// What is missing of what was acknowledged. The next start begins new
    /// epochs then.
    pub loss: Option<Loss>,
}

/// What a state directory has in it.
///
/// # Errors
/// [`Error`].
pub fn show(directory: &Path) -> Result<Found, Error> {
    let record = LastCommit::open_existing(directory)?;
    let file = file::open_existing(directory)?;
    let described = snapshots(directory, &file)?
        .into_iter()
        .map(|(name, row)| describe(directory, &file, &name, &row));
    Ok(Found {
        snapshots: described.collect::<Result<_, _>>()?,
        loss: loss(directory, &file, record.as_ref())?,
    })
}

fn loss(directory: &Path, file: &File, record: Option<&LastCommit>) -> Result<Option<Loss>, Error> {
    let number = file.number();
    let number = number.map_err(|error| file::error(directory, error))?;
    let noted = record.map(LastCommit::noted).transpose();
    let noted = noted.map_err(|source| io_error(directory, source))?;
    Ok(Loss::of(number, noted.flatten()))
}

/// As [`show`], having read and checked everything.
///
/// # Errors
/// [`Error::Damaged`] with the first that is wrong, and others.
pub fn check(directory: &Path) -> Result<Found, Error> {
    let record = LastCommit::open_existing(directory)?;
    let file = file::open_existing(directory)?;
    let mut all = Vec::new();
    for (name, row) in snapshots(directory, &file)? {
        check_objects(&file, &row).map_err(|what| restore::damaged(directory, &name, &what))?;
        all.push(describe(directory, &file, &name, &row)?);
    }
    Ok(Found {
        snapshots: all,
        loss: loss(directory, &file, record.as_ref())?,
    })
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
