//! Reads snapshots back from the file.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use redb::ReadableTable;

use super::error::StoreError;
use super::file::File;
use super::journal::Store;
use super::rows::{self, HELD, ObjectsTable, SnapshotRow, change_of, objects_name};
use crate::EntryRow;
use crate::replica::decode;
use evenkeel_core::matching::{Path as Field, Violations};
use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::held_row::HeldRow;
use evenkeel_core::snapshot::journal::SavedSnapshot;
use evenkeel_core::snapshot::reservation::Serial;
use evenkeel_core::snapshot::{Aside, Batch, Limits, Registry};

/// The number of objects that are read at a time.
const PART: usize = 1_000;

/// The number of parts that are read ahead of being applied.
const PARTS_AHEAD: usize = 4;

impl Store {
    /// Restores all snapshots into a registry. Returns how many they are.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when anything cannot be read. Some snapshots may
    /// already be restored then, so the registry must not be used.
    pub fn restore(&self, registry: &Registry) -> Result<usize, StoreError> {
        let start = Instant::now();
        let (uptime, now) = ((self.uptime)(), registry.now().wall);
        // Nothing may be recorded before the file was read.
        let inner = self.inner.lock();
        let file = inner.file.as_ref();
        let file = file.expect("a store opens with a file to read");
        let all = file
            .snapshots()
            .map_err(StoreError::redb(&self.directory))?;
        let count = all.len();
        for (name, row) in all {
            let damaged =
                |what: String| StoreError::damaged_snapshot(&self.directory, &name, &what);
            let left = |held: &HeldRow| held.left(uptime.as_ref(), Some(now));
            let saved = read_saved(file, (&name, row.entry.clone()), left);
            let mut saved = saved.map_err(damaged)?;
            saved.age = now.duration_since(saved.updated).unwrap_or_default();
            let mut restoring = registry.restoring(saved);
            let read = read_ahead(file, &row, |part| restoring.state.add(&part));
            read.map_err(damaged)?;
            registry.restore(restoring);
        }
        self.counts.note_restored(start.elapsed());
        Ok(count)
    }
}

/// Hands the objects of a snapshot to `apply`, while another thread reads the next ones. Returns
/// the reason if they cannot be read.
fn read_ahead(file: &File, row: &SnapshotRow, apply: impl FnMut(Batch)) -> Result<(), String> {
    thread::scope(|scope| {
        let (parts, read) = sync_channel(PARTS_AHEAD);
        let reader = scope.spawn(move || {
            each_part(file, row, |part| {
                // A receiver that is gone has already failed.
                let _ = parts.send(part);
            })
        });
        read.into_iter().for_each(apply);
        let joined = reader.join();
        joined.unwrap_or_else(|_| Err("its objects cannot be read".to_owned()))
    })
}

/// Reads and checks a snapshot without its objects; `left` returns the remaining time of a hold.
/// Returns the reason if it cannot be read.
pub(super) fn read_saved(
    file: &File,
    (name, mut entry): (&str, EntryRow),
    left: impl Fn(&HeldRow) -> Duration,
) -> Result<SavedSnapshot, String> {
    entry.defaults.get_or_insert_default();
    let mut saved = decode::saved(name, entry).map_err(|error| error.to_string())?;
    for (serial, value) in held_rows(file, name).map_err(|error| error.to_string())? {
        let row: HeldRow = rows::read(&value)?;
        let left = left(&row);
        let mut numbered = row.into_kept()?;
        numbered.set_left(left);
        saved.held.push((serial, numbered));
    }
    Ok(saved)
}

fn held_rows(file: &File, name: &str) -> Result<Vec<(Serial, Vec<u8>)>, redb::Error> {
    let held = file.begin_read()?.open_table(HELD)?;
    let mut all = Vec::new();
    for row in held.range((name, 0)..=(name, u64::MAX))? {
        let (key, value) = row?;
        all.push((key.value().1, value.value().to_vec()));
    }
    Ok(all)
}

/// Reads and checks the objects of a snapshot, some at a time. Returns the reason if one of them is
/// invalid. Restoring and checking share this.
pub(super) fn each_part(
    file: &File,
    row: &SnapshotRow,
    mut each: impl FnMut(Batch),
) -> Result<(), String> {
    let mut changes = Vec::with_capacity(PART);
    let mut judge = |changes: &mut Vec<v1::Change>| -> Result<(), String> {
        let part = std::mem::replace(changes, Vec::with_capacity(PART));
        let part = Batch::read(part, &Limits::none(), Field::root("objects"));
        each(part.map_err(|faults| first(&faults))?);
        Ok(())
    };
    each_object(file, row, |value| {
        changes.push(change_of(value)?);
        if changes.len() >= PART {
            judge(&mut changes)?;
        }
        Ok(())
    })?;
    judge(&mut changes)
}

/// Reads the rows of a snapshot's objects. Returns the reason if that fails.
fn each_object(
    file: &File,
    row: &SnapshotRow,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let name = objects_name(Aside(row.aside));
    let table = file.begin_read().map_err(|error| error.to_string())?;
    let table = table.open_table(ObjectsTable::new(&name));
    let table = table.map_err(|error| error.to_string())?;
    let mut count = 0;
    for row in table.iter().map_err(|error| error.to_string())? {
        let (_, value) = row.map_err(|error| error.to_string())?;
        each(value.value())?;
        count += 1;
    }
    if count != row.objects {
        return Err(format!("{count} objects instead of {}", row.objects));
    }
    Ok(())
}

fn first(faults: &Violations) -> String {
    let fault = faults.iter().next();
    fault.map_or_else(String::new, |f| format!("{}: {}", f.field, f.description))
}
