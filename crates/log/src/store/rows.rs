//! The tables of the file, and their rows: stored values as bytes.

use std::ops::RangeInclusive;

use prost::Message;
use redb::{ReadableTable, Table, TableDefinition};

use super::objects::{self, EncodedChanges};
use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::held_row::nanos;
use evenkeel_core::snapshot::{
    Aside, Change, Defaults, Entry, HeldRow, ResourceVersions, Serial, Uptime,
};

/// Facts about the file itself.
pub(super) const FACTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("evenkeel");

/// Snapshots by name.
pub(super) const SNAPSHOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshots");

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

/// The stored fields of a snapshot besides its objects and reservations.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SnapshotRow {
    #[prost(string, tag = "1")]
    pub epoch: String,
    #[prost(int64, tag = "2")]
    pub revision: i64,
    /// The number of its last entry.
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    /// The creation time in nanoseconds since 1970, like all times here.
    #[prost(int64, tag = "4")]
    pub created: i64,
    #[prost(int64, tag = "5")]
    pub updated: i64,
    #[prost(bool, tag = "6")]
    pub synced: bool,
    #[prost(message, optional, tag = "7")]
    pub defaults: Option<v1::DefaultConstraints>,
    #[prost(uint64, tag = "8")]
    pub last_serial: u64,
    /// The state aside that its objects are in.
    #[prost(uint64, tag = "9")]
    pub aside: u64,
    /// The number of objects under their keys.
    #[prost(uint64, tag = "10")]
    pub objects: u64,
    /// The number of changes in batches that are to be moved under their keys.
    #[prost(uint64, tag = "11")]
    pub pending: u64,
    /// The version of Kubernetes that goes with the default constraints, if one was set.
    #[prost(string, tag = "12")]
    pub kubernetes_version: String,
    /// The versions up to which its feed has read all kinds.
    #[prost(message, optional, tag = "13")]
    pub resource_versions: Option<ResourceVersions>,
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
    pub fn of(entry: &Entry<'_>, now: Option<&Uptime>) -> Self {
        let held = |(serial, row): (Serial, HeldRow)| {
            let row = match now {
                Some(now) => row.measured_from(now),
                None => row,
            };
            (serial, row.encode_to_vec())
        };
        let (effect, aside) = match entry.change {
            Change::Batch(batch) => {
                let changes = batch.map(objects::encode).unwrap_or_default();
                (EntryEffect::Batch(changes), 0)
            }
            Change::Replaced(aside) => (EntryEffect::Replace(false), aside.0),
            Change::Rewritten(aside) => (EntryEffect::Replace(true), aside.0),
            Change::Deleted => (EntryEffect::Delete, 0),
        };
        Self {
            snapshot: entry.name.clone(),
            row: SnapshotRow {
                epoch: entry.epoch.to_owned(),
                revision: entry.revision,
                sequence: entry.sequence,
                created: nanos(entry.created),
                updated: nanos(entry.updated),
                synced: entry.synced,
                defaults: entry.defaults.as_ref().map(|defaults| defaults.to_wire()),
                last_serial: entry.last_serial,
                aside,
                objects: 0,
                pending: 0,
                kubernetes_version: entry
                    .defaults
                    .as_deref()
                    .map(Defaults::version_text)
                    .unwrap_or_default(),
                resource_versions: entry.resource_versions.as_deref().cloned(),
            },
            effect,
            held: entry.rows().map(held).collect(),
            ended: entry.ended.to_vec(),
        }
    }
}

/// Stores a row under a key.
pub(super) fn put(
    table: &mut Table<'_, &'static str, &'static [u8]>,
    key: &str,
    row: &impl Message,
) -> Result<(), redb::Error> {
    table.insert(key, &row.encode_to_vec()[..])?;
    Ok(())
}

/// The row that a table has under a key, if any.
pub(super) fn get<R: Message + Default>(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    key: &str,
) -> Result<Option<R>, redb::Error> {
    let value = table.get(key)?;
    let row = value.map(|value| read(value.value()));
    row.transpose().map_err(redb::Error::Corrupted)
}

/// A row, or the reason why it cannot be read.
pub(super) fn read<R: Message + Default>(value: &[u8]) -> Result<R, String> {
    R::decode(value).map_err(|error| format!("a row cannot be read: {error}"))
}
