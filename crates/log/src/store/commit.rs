//! Transactions: they write entries and states aside as rows.
//!
//! The objects of a batch lie scattered over the pages of their table, and a changed page is
//! written as a whole. So a batch first becomes a few rows of its own. Later many batches are moved
//! under their keys together: a page is written once for all of them, and only the last change of
//! an object counts.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use hashbrown::HashMap;
use redb::{Durability, ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::file::File;
use super::rows::{
    BATCHES, EncodedChange, EncodedEntry, EntryEffect, HELD, ObjectsTable, PART, RowChange,
    SNAPSHOTS, SnapshotRow, batches_of, objects_name,
};
use crate::EntryRow;
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
    Aside(Aside, Vec<EncodedChange>),
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
    let before = {
        let snapshots = transaction.open_table(SNAPSHOTS)?;
        let row = snapshots
            .get(name)?
            .map(|row| SnapshotRow::read(row.value()));
        row.transpose().map_err(redb::Error::Corrupted)?
    };
    match &first.effect {
        EntryEffect::Delete => {
            if let Some(before) = before {
                delete_objects(transaction, Aside(before.aside))?;
                transaction.open_table(SNAPSHOTS)?.remove(name)?;
                forget_held(transaction, name)?;
            }
            return Ok(Ok(()));
        }
        EntryEffect::Replace(true) => {}
        EntryEffect::Replace(false) | EntryEffect::Batch(_) => {
            let before = before.as_ref().map(|before| &before.entry);
            if !follows(&first.row.entry, before) {
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
        row.put(transaction, name)?;
    }
    Ok(Ok(()))
}

/// Returns whether an entry is the next one after the stored ones.
fn follows(row: &EntryRow, before: Option<&EntryRow>) -> bool {
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
                    if row.entry.resource_versions.is_none() {
                        let read = &before.entry.resource_versions;
                        row.entry.resource_versions.clone_from(read);
                    }
                }
                None => {
                    row.aside = asides.next_number();
                    row.objects = count_objects(transaction, Aside(row.aside))?;
                }
            }
            if row.entry.defaults.is_none()
                && let Some(before) = before
            {
                row.entry.defaults = before.entry.defaults;
                row.entry.kubernetes_version = before.entry.kubernetes_version;
            }
            append(transaction, &mut row, objects)?;
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
    objects: &[EncodedChange],
) -> Result<(), redb::Error> {
    let name = objects_name(aside);
    let mut table = transaction.open_table(ObjectsTable::new(&name))?;
    for (key, effect) in objects {
        let change = RowChange::read(key, effect).map_err(redb::Error::Corrupted)?;
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

/// The range for the number of changes in a state's batches: at most twice the number of its
/// objects, but at least the first number and at most the second. This keeps both the bytes written
/// per change and the time to move all changes small.
const PENDING: RangeInclusive<u64> = 500..=300_000;

/// Adds a batch to those of a state.
pub(super) fn append(
    transaction: &WriteTransaction,
    row: &mut SnapshotRow,
    objects: &[EncodedChange],
) -> Result<(), redb::Error> {
    let mut batches = transaction.open_table(BATCHES)?;
    for part in objects.chunks(PART) {
        let bytes = part.iter().flat_map(|(key, effect)| [&**key, &**effect]);
        batches.insert((row.aside, row.pending), bytes.collect::<Vec<_>>())?;
        row.pending += part.len() as u64;
    }
    drop(batches);
    if row.pending >= (2 * row.objects).clamp(*PENDING.start(), *PENDING.end()) {
        settle(transaction, row)?;
    }
    Ok(())
}

/// Moves the batches of a state under the keys of their objects.
pub(super) fn settle(
    transaction: &WriteTransaction,
    row: &mut SnapshotRow,
) -> Result<(), redb::Error> {
    let mut batches = transaction.open_table(BATCHES)?;
    let parts: Result<Vec<_>, _> = batches.range(batches_of(Aside(row.aside)))?.collect();
    let parts = parts?;
    let mut changes = Vec::with_capacity(usize::try_from(row.pending).unwrap_or(0));
    for (_, part) in &parts {
        let part = RowChange::read_all(&part.value());
        changes.extend(part.map_err(redb::Error::Corrupted)?);
    }
    if changes.len() as u64 != row.pending {
        let what = format!("{} changes instead of {}", changes.len(), row.pending);
        return Err(redb::Error::Corrupted(what));
    }
    let name = objects_name(Aside(row.aside));
    let mut table = transaction.open_table(ObjectsTable::new(&name))?;
    for change in that_count(&changes) {
        change.apply(&mut table)?;
    }
    drop(changes);
    let keys: Vec<_> = parts.into_iter().map(|(key, _)| key.value()).collect();
    for key in keys {
        batches.remove(key)?;
    }
    row.pending = 0;
    row.objects = table.len()?;
    Ok(())
}

/// The changes that have an effect, by key; those of one key in order.
fn that_count<'c>(changes: &[RowChange<'c>]) -> Vec<RowChange<'c>> {
    let mut last: HashMap<&[u8], usize> = HashMap::with_capacity(changes.len());
    let at = changes.iter().enumerate();
    let unconditional = at.filter(|(_, change)| change.is_unconditional());
    last.extend(unconditional.map(|(at, change)| (change.key(), at)));
    let counts = |at: &usize, change: &RowChange<'_>| {
        let last = last.get(change.key());
        last.is_none_or(|last| at >= last)
    };
    let mut left: Vec<_> = changes
        .iter()
        .enumerate()
        .filter(|(at, change)| counts(at, change))
        .map(|(_, change)| *change)
        .collect();
    left.sort_by(|a, b| a.key().cmp(b.key()));
    left
}
