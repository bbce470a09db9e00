//! Reads snapshots back from the file.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Instant, SystemTime};

use redb::ReadableTable;

use super::error::StoreError;
use super::file::File;
use super::journal::Store;
use super::rows::{self, HELD, ObjectsTable, SnapshotRow, change_of, objects_name};
use crate::EntryRow;
use crate::replica::decode;
use evenkeel_core::snapshot::clock::Uptime;
use evenkeel_core::snapshot::held_row::HeldRow;
use evenkeel_core::snapshot::journal::SavedSnapshot;
use evenkeel_core::snapshot::{Aside, Batch, Registry};

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
            let saved = read_saved(file, &name, row.entry.clone(), uptime.as_ref(), now);
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

/// Reads and checks a snapshot without its objects, as of this running time of the machine and this
/// time. Returns the reason if it cannot be read.
fn read_saved(
    file: &File,
    name: &str,
    mut entry: EntryRow,
    uptime: Option<&Uptime>,
    now: SystemTime,
) -> Result<SavedSnapshot, String> {
    entry.defaults.get_or_insert_default();
    let mut saved = decode::saved(name, entry).map_err(text)?;
    let held = file
        .begin_read()
        .and_then(|read| Ok(read.open_table(HELD)?));
    let held = held.map_err(text)?;
    for row in held.range((name, 0)..=(name, u64::MAX)).map_err(text)? {
        let (key, value) = row.map_err(text)?;
        let row: HeldRow = rows::read(value.value())?;
        let left = row.left(uptime, Some(now));
        let mut numbered = row.into_kept()?;
        numbered.set_left(left);
        saved.held.push((key.value().1, numbered));
    }
    Ok(saved)
}

/// Reads and checks the objects of a snapshot, some at a time. Returns the reason if one of them is
/// invalid.
fn each_part(file: &File, row: &SnapshotRow, mut each: impl FnMut(Batch)) -> Result<(), String> {
    let name = objects_name(Aside(row.aside));
    let table = ObjectsTable::new(&name);
    let table = file
        .begin_read()
        .and_then(|read| Ok(read.open_table(table)?));
    let table = table.map_err(text)?;
    let mut changes = Vec::with_capacity(PART);
    let mut count = 0;
    for object in table.iter().map_err(text)? {
        let (_, value) = object.map_err(text)?;
        changes.push(change_of(value.value())?);
        count += 1;
        if changes.len() >= PART {
            let part = std::mem::replace(&mut changes, Vec::with_capacity(PART));
            each(decode::accepted(part).map_err(text)?);
        }
    }
    if count != row.objects {
        return Err(format!("{count} objects instead of {}", row.objects));
    }
    each(decode::accepted(changes).map_err(text)?);
    Ok(())
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
