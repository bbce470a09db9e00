//! Repairs a damaged state directory: keeps the whole snapshots.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{ReadableTable, WriteTransaction};

use super::error::StoreError;
use super::file::{self, DRAFT, FILE, File};
use super::inspect;
use super::last_commit::{LastCommit, Loss};
use super::pending;
use super::restore::{each_object, each_part, read_saved};
use super::rows::{BATCHES, HELD, ObjectsTable, SNAPSHOTS, SnapshotRow, batches_of, objects_name};
use super::sealed;
use super::session::note_number;
use crate::snapshot::{Aside, HeldRow};

/// The name of the copy that is read while repairing.
const WORKING_COPY: &str = "evenkeel.redb.repair";

/// The number of rows that are copied in a transaction.
const PART: usize = 50_000;

/// The result of a repair.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The path of the damaged file after the repair; `None` when nothing was damaged.
    pub kept_aside: Option<PathBuf>,
    /// The snapshots that are whole.
    pub whole: Vec<String>,
    /// The lost snapshots, with the reasons. They must be fed again.
    pub lost: Vec<(String, String)>,
    /// The reason why there may have been more snapshots, whose names are lost.
    pub unreadable: Option<String>,
    /// The acknowledged updates that are missing, also from whole snapshots: these get new epochs,
    /// now or at the next start.
    pub loss: Option<Loss>,
}

/// Makes a state directory usable again. Snapshots with missing parts are not kept, because they
/// would answer wrongly. The damaged file is kept.
///
/// # Errors
/// [`StoreError`] if the directory cannot be repaired: it is foreign, in use, of a newer version,
/// or on a disk that fails.
pub fn repair(directory: &Path) -> Result<Repaired, StoreError> {
    match inspect::check(directory) {
        Ok(found) => {
            let whole = found.snapshots.into_iter().map(|snapshot| snapshot.name);
            return Ok(Repaired {
                whole: whole.collect(),
                loss: found.loss,
                ..Repaired::default()
            });
        }
        Err(StoreError::Damaged { .. }) if directory.join(FILE).exists() => {}
        Err(error) => return Err(error),
    }
    let io = StoreError::io(directory);
    let record = LastCommit::open_existing(directory)?;
    let noted = record.as_ref();
    let noted = noted.map_or(Ok(None), |record| record.noted(directory))?;
    let working_copy = directory.join(WORKING_COPY);
    fs::copy(directory.join(FILE), &working_copy).map_err(&io)?;
    let mut repaired = Repaired::default();
    let draft = directory.join(DRAFT);
    let new = file::create(directory, &draft)?;
    let salvaged = catch_unwind(AssertUnwindSafe(|| salvage(directory, &new, &mut repaired)));
    match salvaged {
        Ok(Ok(())) => {}
        Ok(Err(StoreError::Damaged { what, .. })) => repaired.unreadable = Some(what),
        Ok(Err(error)) => return Err(error),
        Err(_) => repaired.unreadable = Some(format!("{FILE} makes no sense")),
    }
    // The kept snapshots may be older than the acknowledged updates.
    let renewed = new.renew_if_lost(noted);
    let renewed = renewed.map_err(StoreError::redb(directory))?;
    repaired.loss = renewed.filter(|_| !repaired.whole.is_empty());
    new.close(directory)?;
    let kept = file::exchange(directory, &draft)?;
    fs::remove_file(&working_copy).map_err(&io)?;
    repaired.kept_aside = Some(kept);
    Ok(repaired)
}

fn salvage(directory: &Path, new: &File, repaired: &mut Repaired) -> Result<(), StoreError> {
    let failed = StoreError::redb::<redb::Error>(directory);
    let old = file::backend(directory, WORKING_COPY)?;
    let old = File::open_with(directory, old, false)?;
    if let Ok(Some(number)) = old.number() {
        let numbered = new.transact(|transaction| note_number(transaction, number));
        numbered.map_err(&failed)?;
    }
    for name in names(&old).map_err(&failed)? {
        let copied = catch_unwind(AssertUnwindSafe(|| copy(&old, new, &name)));
        let copied = copied.unwrap_or_else(|_| Err("its pages make no sense".to_owned()));
        match copied {
            Ok(()) => repaired.whole.push(name),
            Err(why) => repaired.lost.push((name, why)),
        }
    }
    Ok(())
}

fn names(old: &File) -> Result<Vec<String>, redb::Error> {
    let snapshots = old.begin_read()?.open_table(SNAPSHOTS)?;
    let mut names = Vec::new();
    for row in snapshots.iter()? {
        names.push(row?.0.value().to_owned());
    }
    Ok(names)
}

/// Copies a snapshot if it is complete. Otherwise returns the reason why it is not.
fn copy(old: &File, new: &File, name: &str) -> Result<(), String> {
    let text = |error: redb::Error| error.to_string();
    let value = || -> Result<Vec<u8>, redb::Error> {
        let row = old.begin_read()?.open_table(SNAPSHOTS)?.get(name)?;
        Ok(row.map(|row| row.value().to_vec()).unwrap_or_default())
    };
    let value = value().map_err(text)?;
    let row: SnapshotRow = sealed::open(name.as_bytes(), &value)?;
    read_saved(old, (name, &row), HeldRow::whole)?;
    each_part(old, &row, drop)?;

    let mut part = Vec::with_capacity(PART);
    let write = |part: &mut Vec<(Vec<u8>, Vec<u8>)>| {
        let written = new.transact(|transaction| {
            let objects = objects_name(Aside(row.aside));
            let mut table = transaction.open_table(ObjectsTable::new(&objects))?;
            for (key, value) in part.drain(..) {
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        });
        written.map_err(text)
    };
    each_object(old, &row, |key, value| {
        part.push((key.to_vec(), value.to_vec()));
        match part.len() >= PART {
            true => write(&mut part),
            false => Ok(()),
        }
    })?;
    write(&mut part)?;
    let rest = new.transact(|transaction| copy_rest(old, transaction, name, row.clone()));
    rest.map_err(text)
}

/// Copies the batches and reservations of a snapshot and its own row. A snapshot without a row does
/// not exist.
fn copy_rest(
    old: &File,
    new: &WriteTransaction,
    name: &str,
    mut row: SnapshotRow,
) -> Result<(), redb::Error> {
    let held = old.begin_read()?.open_table(HELD)?;
    let mut copy = new.open_table(HELD)?;
    for row in held.range((name, 0)..=(name, u64::MAX))? {
        let (key, value) = row?;
        copy.insert(key.value(), value.value())?;
    }
    if row.pending > 0 {
        let batches = old.begin_read()?.open_table(BATCHES)?;
        let mut copy = new.open_table(BATCHES)?;
        for batch in batches.range(batches_of(Aside(row.aside)))? {
            let (key, value) = batch?;
            copy.insert(key.value(), value.value())?;
        }
        drop(copy);
        pending::settle(new, &mut row)?;
    }
    sealed::put(&mut new.open_table(SNAPSHOTS)?, name, &row)
}
