//! The tables of the file, and their rows: stored values as bytes.

use std::ops::{Range, RangeInclusive};

use prost::Message;
use redb::{ReadableTable, StorageError, Table, TableDefinition, WriteTransaction};

use crate::EntryRow;
use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::change::Form;
use evenkeel_core::snapshot::clock::Uptime;
use evenkeel_core::snapshot::held_row::HeldRow;
use evenkeel_core::snapshot::kind::{StorageKind, metadata_of};
use evenkeel_core::snapshot::reservation::Serial;
use evenkeel_core::snapshot::{Aside, Batch, Change, Entry, ObjectKind, OwnerKind};

/// Facts about the file itself.
pub(super) const FACTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("evenkeel");

/// Snapshots by name: the state aside that the objects of each are in, the numbers of objects and of
/// changes of a [`SnapshotRow`], and its entry.
pub(super) const SNAPSHOTS: TableDefinition<'_, &str, (u64, u64, u64, &[u8])> =
    TableDefinition::new("snapshots");

/// Reservations and answers by snapshot and number.
pub(super) const HELD: TableDefinition<'_, (&str, u64), &[u8]> =
    TableDefinition::new("reservations");

/// The objects of a state, by kind, namespace and name.
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
    Batch(EncodedChanges),
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
const PART: usize = 200;

/// Changes of objects, as bytes.
#[derive(Default)]
pub(super) struct EncodedChanges {
    bytes: Vec<u8>,
    /// The positions of each change's key and effect.
    changes: Vec<(Range<usize>, Range<usize>)>,
}

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

impl EncodedChanges {
    /// The changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = RowChange<'_>> {
        self.pairs(&self.changes).map(|(key, change)| {
            RowChange::read(key, change).expect("what was just written can be read")
        })
    }

    /// The changes, in order, in parts that are written as one row each, with their numbers of
    /// changes.
    pub fn parts(&self) -> impl Iterator<Item = (usize, Vec<&[u8]>)> {
        self.changes.chunks(PART).map(|part| {
            let pairs = self.pairs(part);
            (
                part.len(),
                pairs.flat_map(|(key, change)| [key, change]).collect(),
            )
        })
    }

    fn pairs<'o>(
        &'o self,
        changes: &'o [(Range<usize>, Range<usize>)],
    ) -> impl Iterator<Item = (&'o [u8], &'o [u8])> {
        let changes = changes.iter();
        changes.map(|(key, change)| (&self.bytes[key.clone()], &self.bytes[change.clone()]))
    }
}

impl<'a> RowChange<'a> {
    /// The changes of a part, or the reason why they cannot be read.
    pub fn read_all(part: &[&'a [u8]]) -> Result<Vec<Self>, String> {
        let read = |pair: &[&'a [u8]]| match *pair {
            [key, change] => Self::read(key, change),
            _ => Err("a batch ends within a change".to_owned()),
        };
        part.chunks(2).map(read).collect()
    }

    fn read(key: &'a [u8], change: &'a [u8]) -> Result<Self, String> {
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

/// Encodes the changes of a batch.
pub(super) fn encode(batch: &Batch) -> EncodedChanges {
    let mut bytes = Vec::with_capacity(batch.len() * Batch::USUAL_BYTES);
    let mut changes = Vec::with_capacity(batch.len());
    for change in batch.changes() {
        let start = bytes.len();
        let id = change.id;
        bytes.push(kind_byte(id.kind));
        bytes.extend_from_slice(id.namespace.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(id.name.as_bytes());
        let key = start..bytes.len();
        bytes.push(match change.form {
            Form::Delete(_) => DELETE,
            _ => PUT,
        });
        match change.form {
            Form::Delete(uid) => bytes.extend_from_slice(uid.as_bytes()),
            _ => {
                let encoded = change.to_wire().encode(&mut bytes);
                encoded.expect("a vector has room for all");
            }
        }
        changes.push((key.clone(), key.end..bytes.len()));
    }
    EncodedChanges { bytes, changes }
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

/// The first byte of the key of an object of each kind. Nodes come first, then the objects that select
/// pods, then pods, then the rest.
const KINDS: [(u8, ObjectKind); 11] = [
    (1, ObjectKind::Node),
    (2, ObjectKind::Owner(OwnerKind::Service)),
    (3, ObjectKind::Owner(OwnerKind::ReplicaSet)),
    (4, ObjectKind::Owner(OwnerKind::StatefulSet)),
    (5, ObjectKind::Owner(OwnerKind::ReplicationController)),
    (6, ObjectKind::Pod),
    (7, ObjectKind::Namespace),
    (14, ObjectKind::Owner(OwnerKind::PodDisruptionBudget)),
    (8, ObjectKind::Storage(StorageKind::Claim)),
    (9, ObjectKind::Storage(StorageKind::Volume)),
    (10, ObjectKind::Storage(StorageKind::Class)),
];

fn kind_byte(kind: ObjectKind) -> u8 {
    let known = KINDS.iter().find(|(_, known)| *known == kind);
    known.expect("every kind has a number").0
}
