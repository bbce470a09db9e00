//! Entries as records hold them, in protobuf. Objects and reservations are encoded as they are on
//! the wire and in the state directory.

use prost::Message;
use prost::bytes::Bytes;

use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::held_row::HeldRow;
use evenkeel_core::snapshot::held_row::nanos;
use evenkeel_core::snapshot::{Batch, Change, Defaults, Entry, ResourceVersions};

/// The protobuf form of an [`Entry`].
#[derive(Clone, PartialEq, Message)]
pub struct EntryRow {
    /// The epoch of the snapshot.
    #[prost(string, tag = "1")]
    pub epoch: String,
    /// The revision of the snapshot afterwards.
    #[prost(int64, tag = "2")]
    pub revision: i64,
    /// The number of the entry in the epoch.
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    /// The time when the snapshot was created, in nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub created: i64,
    /// The time when the snapshot's last batch was applied, in nanoseconds since 1970.
    #[prost(int64, tag = "5")]
    pub updated: i64,
    /// True if decisions are answered afterwards.
    #[prost(bool, tag = "6")]
    pub synced: bool,
    /// The kind of change to the objects.
    #[prost(enumeration = "Happened", tag = "7")]
    pub happened: i32,
    /// The changes of a batch: a [`ChangesRow`], still encoded.
    #[prost(bytes = "bytes", tag = "8")]
    pub changes: Bytes,
    /// The blobs that hold the objects of a replace or a rewrite.
    #[prost(message, optional, tag = "9")]
    pub aside: Option<AsideRow>,
    /// Default constraints, where they are set.
    #[prost(message, optional, tag = "10")]
    pub defaults: Option<v1::DefaultConstraints>,
    /// The number of the last reservation ever made.
    #[prost(uint64, tag = "11")]
    pub last_serial: u64,
    /// Reservations as they are from now on, and answers that are kept.
    #[prost(message, repeated, tag = "12")]
    pub held: Vec<NumberedRow>,
    /// The numbers of reservations that have ended, and of answers that are
    /// forgotten.
    #[prost(uint64, repeated, tag = "13")]
    pub ended: Vec<u64>,
    /// The version of Kubernetes that goes with the default constraints, if one was set.
    #[prost(string, tag = "14")]
    pub kubernetes_version: String,
    /// The versions up to which the feed has read all kinds, where they are set.
    #[prost(message, optional, tag = "15")]
    pub resource_versions: Option<ResourceVersions>,
    /// The time from the snapshot's last batch until the row was written, in nanoseconds.
    #[prost(uint64, tag = "16")]
    pub age: u64,
}

/// The effect of an entry on the objects of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Happened {
    /// The changes are applied, in order; there may be none.
    Batch = 0,
    /// The objects become the ones that were written aside.
    Replaced = 1,
    /// The snapshot becomes the state that was written aside, with only the reservations of the
    /// entry: it begins a new epoch.
    Rewritten = 2,
    /// The snapshot ends.
    Deleted = 3,
}

/// A reservation or a kept answer, with its number.
#[derive(Clone, PartialEq, Message)]
pub struct NumberedRow {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub serial: u64,
    /// The reservation or the answer.
    #[prost(message, optional, tag = "2")]
    pub row: Option<HeldRow>,
}

/// Data that is kept in blobs beside the log, and was complete when its record was
/// written: parts, which are pieces of one sequence of bytes. The objects of a snapshot are
/// [`ChangesRow`]s, each with its length before it.
#[derive(Clone, PartialEq, Message)]
pub struct AsideRow {
    /// The start of the names of the parts, after which each has its number, from 0.
    #[prost(string, tag = "1")]
    pub folder: String,
    /// The number of parts.
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// SHA-256 of the SHA-256 of all parts, as they are kept, in order.
    #[prost(bytes = "vec", tag = "3")]
    pub sha256: Vec<u8>,
}

impl AsideRow {
    /// The names of the parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = String> + '_ {
        let numbers = 0..self.count;
        numbers.map(|number| format!("{}{number}", self.folder))
    }
}

/// Changes in order: those of a batch, or of a part of a replace.
#[derive(Clone, PartialEq, Message)]
pub struct ChangesRow {
    /// The changes.
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<v1::Change>,
}

impl EntryRow {
    /// Returns the row of an entry. `aside` names the blobs of a replace or a rewrite.
    pub fn of(entry: &Entry, aside: Option<AsideRow>) -> Self {
        let changes = match &entry.change {
            Change::Batch(batch) => encode_changes(batch),
            _ => Bytes::new(),
        };
        let numbered = |(serial, row)| NumberedRow {
            serial,
            row: Some(row),
        };
        Self {
            changes,
            aside,
            held: entry.rows().map(numbered).collect(),
            ended: entry.ended.clone(),
            ..Self::head(entry)
        }
    }

    /// Returns the row of an entry without its objects, reservations and answers.
    pub fn head(entry: &Entry) -> Self {
        let happened = match &entry.change {
            Change::Batch(_) => Happened::Batch,
            Change::Replaced(_) => Happened::Replaced,
            Change::Rewritten(_) => Happened::Rewritten,
            Change::Deleted => Happened::Deleted,
        };
        Self {
            epoch: entry.epoch.to_owned(),
            revision: entry.revision,
            sequence: entry.sequence,
            created: nanos(entry.created),
            updated: nanos(entry.updated),
            synced: entry.synced,
            happened: happened.into(),
            defaults: entry.defaults.as_ref().map(|defaults| defaults.to_wire()),
            last_serial: entry.last_serial,
            kubernetes_version: entry
                .defaults
                .as_deref()
                .map(Defaults::version_text)
                .unwrap_or_default(),
            resource_versions: entry.resource_versions.as_deref().cloned(),
            age: u64::try_from(entry.age.as_nanos()).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }
}

/// The bytes of a [`ChangesRow`] with the changes of a batch.
pub fn encode_changes(batch: &Batch) -> Bytes {
    let mut bytes = Vec::with_capacity(batch.len() * Batch::USUAL_BYTES);
    for change in batch.changes() {
        prost::encoding::message::encode(1, &change.to_wire(), &mut bytes);
    }
    bytes.into()
}
