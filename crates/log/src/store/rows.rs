//! The tables of the file, and their rows: stored values as bytes.

use std::ops::RangeInclusive;

use prost::Message;
use redb::{ReadableTable, StorageError, Table, TableDefinition, WriteTransaction};

use crate::EntryRow;
use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::change::Form;
use evenkeel_core::snapshot::clock::Uptime;
use evenkeel_core::snapshot::held_row::HeldRow;
use evenkeel_core::snapshot::kind::metadata_of;
use evenkeel_core::snapshot::reservation::Serial;
use evenkeel_core::snapshot::{Aside, Batch, Change, Entry};

/// Facts about the file itself.
pub(super) const FACTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("evenkeel");

/// Snapshots by name: the state aside that the objects of each are in, the numbers of objects and of
/// changes of a [`SnapshotRow`], and its entry.
pub(super) const SNAPSHOTS: TableDefinition<'_, &str, (u64, u64, u64, &[u8])> =
    TableDefinition::new("snapshots");

/// Reservations and answers by snapshot and number.
pub(super) const HELD: TableDefinition<'_, (&str, u64), &[u8]> =
    TableDefinition::new("reservations");

/// The objects of a state, by kind, namespace and name: nodes come before pods.
pub(super) type ObjectsTable<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;

/// The prefix of the names of the tables of objects.
pub(super) const OBJECTS: &str = "objects/";

/// The name of the table of a state's objects.
pub(super) fn objects_name(aside: Aside) -> String {
    format!("{OBJECTS}{}", aside.0)
}

/// Changes by state and the number of earlier changes: keys and their effects, alternating.
pub(super) const BATCHES: TableDefinition<'_, (u64, u64), Vec<&[u8]>> =
    TableDefinition::new("batches");

/// The keys of a state's batches.
pub(super) fn batches_of(aside: Aside) -> RangeInclusive<(u64, u64)> {
    (aside.0, 0)..=(aside.0, u64::MAX)
}

/// A stored snapshot, without its objects and reservations.
#[derive(Clone, Default)]
pub(super) struct SnapshotRow {
    /// The last entry, with the defaults and the resource versions of the last one that had some.
    pub entry: EntryRow,
    /// The state aside that its objects are in.
    pub aside: u64,
    /// The number of objects under their keys.
    pub objects: u64,
    /// The number of changes in batches that are to be moved under their keys.
    pub pending: u64,
}

impl SnapshotRow {
    /// Stores the row of the snapshot of this name.
    pub fn put(&self, transaction: &WriteTransaction, name: &str) -> Result<(), redb::Error> {
        let entry = self.entry.encode_to_vec();
        let row = (self.aside, self.objects, self.pending, &entry[..]);
        transaction.open_table(SNAPSHOTS)?.insert(name, row)?;
        Ok(())
    }

    /// The row of a stored value, or the reason why it cannot be read.
    pub fn read(value: (u64, u64, u64, &[u8])) -> Result<Self, String> {
        let (aside, objects, pending, entry) = value;
        Ok(Self {
            entry: read(entry)?,
            aside,
            objects,
            pending,
        })
    }
}

/// An entry in the form that is written.
pub(super) struct EncodedEntry {
    pub snapshot: String,
    /// The row of the snapshot afterwards. The state aside, and default constraints and resource
    /// versions that are not set, are taken from the row before.
    pub row: SnapshotRow,
    pub effect: EntryEffect,
    pub held: Vec<(Serial, Vec<u8>)>,
    pub ended: Vec<Serial>,
}

/// The effect of an entry on the objects.
pub(super) enum EntryEffect {
    Batch(Vec<EncodedChange>),
    /// The objects become those of the state aside in the row. With `true` the reservations become
    /// those of the entry alone.
    Replace(bool),
    Delete,
}

impl EncodedEntry {
    /// Encodes an entry that is recorded at this moment.
    pub fn of(entry: &Entry, now: Option<&Uptime>) -> Self {
        let held = |(serial, row): (Serial, HeldRow)| {
            let row = match now {
                Some(now) => row.measured_from(now),
                None => row,
            };
            (serial, row.encode_to_vec())
        };
        let effect = match &entry.change {
            Change::Batch(batch) => EntryEffect::Batch(encode(batch)),
            Change::Replaced(_) => EntryEffect::Replace(false),
            Change::Rewritten(_) => EntryEffect::Replace(true),
            Change::Deleted => EntryEffect::Delete,
        };
        Self {
            snapshot: entry.name.clone(),
            row: SnapshotRow {
                entry: EntryRow::head(entry),
                aside: entry.aside().map_or(0, |aside| aside.0),
                ..SnapshotRow::default()
            },
            effect,
            held: entry.rows().map(held).collect(),
            ended: entry.ended.clone(),
        }
    }
}

/// A row, or the reason why it cannot be read.
pub(super) fn read<R: Message + Default>(value: &[u8]) -> Result<R, String> {
    R::decode(value).map_err(|error| format!("a row cannot be read: {error}"))
}

/// The number of changes in a row of a batch: about as many as fit 64 KiB, to which the store
/// rounds up.
pub(super) const PART: usize = 200;

/// A change of an object as bytes: the key of the object, and the effect.
pub(super) type EncodedChange = (Vec<u8>, Vec<u8>);

/// A change of an object.
#[derive(Clone, Copy)]
pub(super) enum RowChange<'a> {
    /// Stores this value under this key.
    Put(&'a [u8], &'a [u8]),
    /// Deletes the object of this key if it has this uid, or if the uid is empty.
    Delete(&'a [u8], &'a str),
}

// The effect of a change begins with one of these bytes; a row follows.
const PUT: u8 = 0;
const DELETE: u8 = 1;

impl<'a> RowChange<'a> {
    /// The changes of a part, or the reason why they cannot be read.
    pub fn read_all(part: &[&'a [u8]]) -> Result<Vec<Self>, String> {
        let read = |pair: &[&'a [u8]]| match *pair {
            [key, change] => Self::read(key, change),
            _ => Err("a batch ends within a change".to_owned()),
        };
        part.chunks(2).map(read).collect()
    }

    pub fn read(key: &'a [u8], change: &'a [u8]) -> Result<Self, String> {
        match change.split_first() {
            // The reader of the object checks its row.
            Some((&PUT, row)) => Ok(Self::Put(key, row)),
            Some((&DELETE, row)) => {
                let uid = std::str::from_utf8(row);
                let uid = uid.map_err(|error| format!("a uid is no text: {error}"))?;
                Ok(Self::Delete(key, uid))
            }
            _ => Err("a change is of an unknown kind".to_owned()),
        }
    }

    /// The key of the object.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Self::Put(key, _) | Self::Delete(key, _) => key,
        }
    }

    /// Returns whether the change's effect does not depend on the stored object.
    pub fn is_unconditional(&self) -> bool {
        matches!(self, Self::Put(..) | Self::Delete(_, ""))
    }

    /// Applies the change to the objects of a state, as a snapshot does.
    pub fn apply(
        &self,
        table: &mut Table<'_, &'static [u8], &'static [u8]>,
    ) -> Result<(), StorageError> {
        match *self {
            Self::Put(key, value) => {
                table.insert(key, value)?;
            }
            Self::Delete(key, "") => {
                table.remove(key)?;
            }
            Self::Delete(key, uid) => {
                let stored = table.get(key)?;
                let stored = stored.map(|value| uid_of(value.value()));
                let stored = stored.transpose().map_err(StorageError::Corrupted)?;
                if stored.is_some_and(|stored| stored == uid) {
                    table.remove(key)?;
                }
            }
        }
        Ok(())
    }
}

/// Encodes the changes of a batch. The key of an object begins with its kind.
pub(super) fn encode(batch: &Batch) -> Vec<EncodedChange> {
    let changes = batch.changes().map(|change| {
        let id = change.id;
        let key = [id.kind.as_str(), id.namespace, id.name].join("\0");
        let effect = match change.form {
            Form::Delete(uid) => [&[DELETE], uid.as_bytes()].concat(),
            _ => {
                let mut effect = vec![PUT];
                let encoded = change.to_wire().encode(&mut effect);
                encoded.expect("a vector has room for all");
                effect
            }
        };
        (key.into_bytes(), effect)
    });
    changes.collect()
}

/// The change that creates the object of a row, or the reason why it cannot be read.
pub(super) fn change_of(row: &[u8]) -> Result<v1::Change, String> {
    v1::Change::decode(row).map_err(|error| format!("an object cannot be read: {error}"))
}

/// The uid of the object of a row, or the reason why it cannot be read.
fn uid_of(row: &[u8]) -> Result<String, String> {
    let object = change_of(row)?.object;
    let metadata = object.as_ref().and_then(metadata_of);
    Ok(metadata.map_or_else(String::new, |metadata| metadata.uid.clone()))
}
