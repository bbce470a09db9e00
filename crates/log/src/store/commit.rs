//! Transactions: they write entries and states aside as rows.

use std::collections::HashSet;

use redb::{Durability, ReadableTableMetadata, WriteTransaction};

use super::file::File;
use super::objects::EncodedChanges;
use super::pending;
use super::rows::{
    BATCHES, EncodedEntry, EntryEffect, HELD, ObjectsTable, SNAPSHOTS, SnapshotRow, batches_of,
    get, objects_name, put,
};
use evenkeel_core::snapshot::{Aside, JournalError};

/// The states aside that belong to no snapshot yet.
pub(super) struct Asides {
    /// The blobs that are being written.
    pub open: HashSet<Aside>,
    /// The blobs that are to be dropped with the next transaction.
    pub dropped: Vec<Aside>,
    /// The number of the next state aside.
    pub next: u64,
}

impl Asides {
    /// A number that no other state has.
    pub fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// Work for the store: a write that a caller wants.
pub(super) enum Transacted {
    /// Entries of one snapshot, in order.
    Entries(Vec<EncodedEntry>),
    /// Changes of a state aside.
    Aside(Aside, EncodedChanges),
    /// Writing out the buffer.
    WriteOut,
}

/// Does all work in one transaction. With `buffers` the transaction need not
/// be in the file when this returns.
pub(super) fn write(
    file: &File,
    works: &[Transacted],
    asides: &mut Asides,
    buffers: bool,
) -> Result<Vec<Result<(), JournalError>>, redb::Error> {
    file.transact(|transaction| {
        if buffers {
            transaction.set_durability(Durability::None)?;
        }
        for aside in asides.dropped.drain(..) {
            delete_objects(transaction, aside)?;
        }
        let outcomes = works.iter().map(|work| match work {
            Transacted::Entries(entries) => write_entries(transaction, entries, asides),
            Transacted::Aside(aside, _) if !asides.open.contains(aside) => {
                Ok(Err(JournalError::LostAside))
            }
            Transacted::Aside(aside, objects) => apply(transaction, *aside, objects).map(Ok),
            Transacted::WriteOut => Ok(Ok(())),
        });
        outcomes.collect()
    })
}

/// Writes entries of one snapshot, if they follow the stored ones.
fn write_entries(
    transaction: &WriteTransaction,
    entries: &[EncodedEntry],
    asides: &mut Asides,
) -> Result<Result<(), JournalError>, redb::Error> {
    let Some(first) = entries.first() else {
        return Ok(Ok(()));
    };
    let name = first.snapshot.as_str();
    let mut snapshots = transaction.open_table(SNAPSHOTS)?;
    let before: Option<SnapshotRow> = get(&snapshots, name)?;
    match &first.effect {
        EntryEffect::Delete => {
            if let Some(before) = before {
                delete_objects(transaction, Aside(before.aside))?;
                snapshots.remove(name)?;
                forget_held(transaction, name)?;
            }
            return Ok(Ok(()));
        }
        EntryEffect::Replace(true) => {}
        EntryEffect::Replace(false) | EntryEffect::Batch(_) => {
            if !follows(&first.row, before.as_ref()) {
                return Ok(Err(JournalError::OutOfStep));
            }
        }
    }
    let is_lost = |entry: &EncodedEntry| {
        matches!(entry.effect, EntryEffect::Replace(_))
            && !asides.open.contains(&Aside(entry.row.aside))
    };
    if entries.iter().any(is_lost) {
        return Ok(Err(JournalError::LostAside));
    }
    let mut row = before;
    for entry in entries {
        row = Some(write_entry(transaction, entry, row, asides)?);
    }
    if let Some(row) = row {
        put(&mut snapshots, name, &row)?;
    }
    Ok(Ok(()))
}

/// Returns whether an entry is the next one after the stored ones.
fn follows(row: &SnapshotRow, before: Option<&SnapshotRow>) -> bool {
    match before {
        None => row.sequence == 1,
        Some(before) => row.epoch == before.epoch && row.sequence == before.sequence + 1,
    }
}

/// Writes the effect of an entry; returns the row of its snapshot afterwards.
fn write_entry(
    transaction: &WriteTransaction,
    entry: &EncodedEntry,
    before: Option<SnapshotRow>,
    asides: &mut Asides,
) -> Result<SnapshotRow, redb::Error> {
    let mut row = entry.row.clone();
    match &entry.effect {
        EntryEffect::Batch(objects) => {
            match &before {
                Some(before) => {
                    row.aside = before.aside;
                    row.objects = before.objects;
                    row.pending = before.pending;
                    if row.resource_versions.is_none() {
                        row.resource_versions.clone_from(&before.resource_versions);
                    }
                }
                None => {
                    row.aside = asides.next_number();
                    row.objects = count_objects(transaction, Aside(row.aside))?;
                }
            }
            if row.defaults.is_none()
                && let Some(before) = before
            {
                row.defaults = before.defaults;
                row.kubernetes_version = before.kubernetes_version;
            }
            pending::append(transaction, &mut row, objects)?;
        }
        EntryEffect::Replace(rewrites) => {
            row.objects = count_objects(transaction, Aside(row.aside))?;
            asides.open.remove(&Aside(row.aside));
            if let Some(before) = before {
                delete_objects(transaction, Aside(before.aside))?;
            }
            if *rewrites {
                forget_held(transaction, &entry.snapshot)?;
            }
        }
        EntryEffect::Delete => unreachable!("a deletion is told apart before"),
    }
    if !entry.held.is_empty() || !entry.ended.is_empty() {
        let mut held = transaction.open_table(HELD)?;
        let name = entry.snapshot.as_str();
        for serial in &entry.ended {
            held.remove((name, *serial))?;
        }
        for (serial, value) in &entry.held {
            held.insert((name, *serial), &value[..])?;
        }
    }
    Ok(row)
}

/// Applies changes to the objects of a state that is not visible yet.
fn apply(
    transaction: &WriteTransaction,
    aside: Aside,
    objects: &EncodedChanges,
) -> Result<(), redb::Error> {
    let name = objects_name(aside);
    let mut table = transaction.open_table(ObjectsTable::new(&name))?;
    for change in objects.iter() {
        change.apply(&mut table)?;
    }
    Ok(())
}

/// Returns how many objects a state has under their keys. A state without objects was never written
/// to, and gets its table.
fn count_objects(transaction: &WriteTransaction, aside: Aside) -> Result<u64, redb::Error> {
    let name = objects_name(aside);
    Ok(transaction.open_table(ObjectsTable::new(&name))?.len()?)
}

fn delete_objects(transaction: &WriteTransaction, aside: Aside) -> Result<(), redb::Error> {
    transaction.delete_table(ObjectsTable::new(&objects_name(aside)))?;
    let mut batches = transaction.open_table(BATCHES)?;
    batches.retain_in(batches_of(aside), |_, _| false)?;
    Ok(())
}

fn forget_held(transaction: &WriteTransaction, snapshot: &str) -> Result<(), redb::Error> {
    let mut held = transaction.open_table(HELD)?;
    held.retain_in((snapshot, 0)..=(snapshot, u64::MAX), |_, _| false)?;
    Ok(())
}
