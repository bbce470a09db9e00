//! Rows: stored values as bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::objects::{self, EncodedChanges};
use super::sealed::seal;
use crate::matching::Requests;
use crate::proto::v1;
use crate::snapshot::{Change, Claim, Entry, Hold, Reservation, Serial};

/// What is stored of a snapshot besides its objects and reservations.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SnapshotRow {
    #[prost(string, tag = "1")]
    pub epoch: String,
    #[prost(int64, tag = "2")]
    pub revision: i64,
    /// The number of its last entry.
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    /// Nanoseconds since 1970, as all times here.
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
    /// How many objects are under their keys.
    #[prost(uint64, tag = "10")]
    pub objects: u64,
    /// How many changes are in batches that are to be put there.
    #[prost(uint64, tag = "11")]
    pub pending: u64,
}

/// A reservation.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeldRow {
    #[prost(string, tag = "1")]
    pub owner: String,
    /// Nanoseconds.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub labels: BTreeMap<String, String>,
    #[prost(string, tag = "5")]
    pub node: String,
    #[prost(int64, tag = "6")]
    pub expires: i64,
    #[prost(message, optional, tag = "7")]
    pub pod: Option<v1::ReservedPod>,
    /// What it requests of its node.
    #[prost(message, optional, tag = "8")]
    pub requests: Option<v1::Container>,
}

/// An entry as it is written.
pub(super) struct EncodedEntry {
    pub snapshot: String,
    /// The row of the snapshot afterwards. Where its objects are, and default
    /// constraints that are not set, are those of the row before.
    pub row: SnapshotRow,
    pub effect: EntryEffect,
    pub held: Vec<(Serial, Vec<u8>)>,
    pub ended: Vec<Serial>,
}

/// What an entry does to the objects.
pub(super) enum EntryEffect {
    Batch(EncodedChanges),
    /// The objects are those of the state aside in the row; with `true` the
    /// reservations are those of the entry alone.
    Replace(bool),
    Delete,
}

impl EncodedEntry {
    pub fn of(entry: &Entry<'_>) -> Self {
        let (effect, aside) = match entry.change {
            Change::Batch(objects) => (EntryEffect::Batch(objects::encode(objects)), 0),
            Change::Replaced(aside) => (EntryEffect::Replace(false), aside.0),
            Change::Rewritten(aside) => (EntryEffect::Replace(true), aside.0),
            Change::Deleted => (EntryEffect::Delete, 0),
        };
        let held = entry.held.iter();
        Self {
            snapshot: entry.snapshot.to_owned(),
            row: SnapshotRow {
                epoch: entry.epoch.to_owned(),
                revision: entry.revision,
                sequence: entry.sequence,
                created: nanos(entry.created),
                updated: nanos(entry.updated),
                synced: entry.synced,
                defaults: entry.defaults.map(|defaults| defaults.to_wire()),
                last_serial: entry.last_serial,
                aside,
                objects: 0,
                pending: 0,
            },
            effect,
            held: held
                .map(|(serial, held)| {
                    let key = held_key(entry.snapshot, *serial);
                    (*serial, seal(&key, &HeldRow::of(held)))
                })
                .collect(),
            ended: entry.ended.to_vec(),
        }
    }
}

impl HeldRow {
    fn of(held: &Reservation) -> Self {
        let pod = held.claim.as_ref().map(|claim| v1::ReservedPod {
            name: claim.name.to_string(),
            uid: claim.uid.to_string(),
        });
        Self {
            owner: held.hold.owner.to_string(),
            ttl: i64::try_from(held.hold.ttl.as_nanos()).unwrap_or(i64::MAX),
            namespace: held.hold.namespace.to_string(),
            labels: (*held.hold.labels).clone(),
            node: held.node.to_string(),
            expires: nanos(held.expires),
            pod,
            requests: held.hold.requests.to_wire(),
        }
    }

    pub fn into_held(self) -> Reservation {
        let claim = self.pod.map(|pod| Claim {
            name: pod.name.into(),
            uid: pod.uid.into(),
        });
        Reservation {
            hold: Hold {
                owner: self.owner.into(),
                ttl: Duration::from_nanos(self.ttl.unsigned_abs()),
                namespace: self.namespace.into(),
                labels: Arc::new(self.labels),
                requests: Arc::new(
                    self.requests
                        .map_or_else(Requests::default, Requests::of_one),
                ),
            },
            node: self.node.into(),
            expires: time(self.expires),
            claim,
        }
    }
}

/// What the checksum of a reservation covers as its key.
pub(super) fn held_key(snapshot: &str, serial: Serial) -> Vec<u8> {
    [snapshot.as_bytes(), &serial.to_be_bytes()].concat()
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The time this many nanoseconds after 1970.
pub(super) fn time(nanos: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos.unsigned_abs())
}
