//! Changes of objects, as bytes.

use std::ops::Range;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use redb::{ReadableTable, StorageError, Table};

use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::{
    Batch, Form, ObjectKind, OwnerKind, StorageKind, encode_object, metadata_mut, metadata_of,
};

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
                let stored = stored.map(|value| uid_of(key, value.value()));
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
                let mut object = change.to_wire();
                // The key has the names.
                set_names(&mut object, "", "");
                let object = object.object.iter();
                object.for_each(|object| encode_object(object, &mut bytes));
            }
        }
        changes.push((key.clone(), key.end..bytes.len()));
    }
    EncodedChanges { bytes, changes }
}

/// Gives the object of a change these names.
fn set_names(change: &mut v1::Change, namespace: &str, name: &str) {
    if let Some(metadata) = change.object.as_mut().and_then(metadata_mut) {
        namespace.clone_into(&mut metadata.namespace);
        name.clone_into(&mut metadata.name);
    }
}

/// The change that creates the object of a row, or the reason why it cannot be read. The object gets
/// the names of its key.
pub(super) fn change_of(key: &[u8], object: &[u8]) -> Result<v1::Change, String> {
    let (number, names) = key.split_first().unwrap_or((&0, &[]));
    let Some((.., field)) = KINDS.iter().find(|(known, ..)| known == number) else {
        return Err(format!("an object is of the unknown kind {number}"));
    };
    let names = std::str::from_utf8(names).ok();
    let names = names.and_then(|names| names.split_once('\0'));
    let (namespace, name) = names.ok_or("the key of an object has no name")?;
    let mut change = Vec::with_capacity(Batch::USUAL_BYTES);
    encode_key(*field, WireType::LengthDelimited, &mut change);
    encode_varint(object.len() as u64, &mut change);
    change.extend_from_slice(object);
    let change = v1::Change::decode(&*change);
    let mut change = change.map_err(|error| format!("an object cannot be read: {error}"))?;
    set_names(&mut change, namespace, name);
    Ok(change)
}

/// The uid of the object of a row, or the reason why it cannot be read.
fn uid_of(key: &[u8], value: &[u8]) -> Result<String, String> {
    let object = change_of(key, value)?.object;
    let metadata = object.as_ref().and_then(metadata_of);
    Ok(metadata.map_or_else(String::new, |metadata| metadata.uid.clone()))
}

/// The first byte of the key of an object of each kind, and the field of a `Change` that holds such
/// objects. Nodes come first, then the objects that select pods, then pods, then the rest.
const KINDS: [(u8, ObjectKind, u32); 11] = [
    (1, ObjectKind::Node, 1),
    (2, ObjectKind::Owner(OwnerKind::Service), 3),
    (3, ObjectKind::Owner(OwnerKind::ReplicaSet), 4),
    (4, ObjectKind::Owner(OwnerKind::StatefulSet), 5),
    (5, ObjectKind::Owner(OwnerKind::ReplicationController), 6),
    (6, ObjectKind::Pod, 2),
    (7, ObjectKind::Namespace, 7),
    (14, ObjectKind::Owner(OwnerKind::PodDisruptionBudget), 14),
    (8, ObjectKind::Storage(StorageKind::Claim), 8),
    (9, ObjectKind::Storage(StorageKind::Volume), 9),
    (10, ObjectKind::Storage(StorageKind::Class), 10),
];

fn kind_byte(kind: ObjectKind) -> u8 {
    let known = KINDS.iter().find(|(_, known, _)| *known == kind);
    known.expect("every kind has a number").0
}
