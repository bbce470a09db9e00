//! Batches that are not under the keys of their objects yet.
//!
//! The objects of a batch lie scattered over the pages of their table, and a changed page is
//! written as a whole. So a batch first becomes a few rows of its own. Later many batches are moved
//! under their keys together: a page is written once for all of them, and only the last change of
//! an object counts.

use std::ops::RangeInclusive;

use hashbrown::HashMap;
use redb::{ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::objects::{EncodedChanges, RowChange};
use super::rows::{BATCHES, ObjectsTable, SnapshotRow, batches_of, objects_name};
use evenkeel_core::snapshot::Aside;

/// The range for the number of changes in a state's batches: at most twice the number of its
/// objects, but at least the first number and at most the second. This keeps both the bytes written
/// per change and the time to move all changes small.
const PENDING: RangeInclusive<u64> = 500..=300_000;

/// Adds a batch to those of a state.
pub(super) fn append(
    transaction: &WriteTransaction,
    row: &mut SnapshotRow,
    objects: &EncodedChanges,
) -> Result<(), redb::Error> {
    let mut batches = transaction.open_table(BATCHES)?;
    for (count, part) in objects.parts() {
        batches.insert((row.aside, row.pending), part)?;
        row.pending += count as u64;
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
