//! Rows: what is kept, as bytes.
//!
//! Every value begins with a checksum of its key and the rest, so that a row
//! which was damaged is known even where the pages of the file are trusted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::{Change, Claim, Entry, Held, Hold, Identity, Kind, OwnerKind, Serial};

/// What is kept of a snapshot beside its objects and reservations.
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
    /// How many objects there are.
    #[prost(uint64, tag = "10")]
    pub objects: u64,
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
}

/// A process that had the file open, or has it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionRow {
    /// Whether it has not closed the file.
    #[prost(bool, tag = "1")]
    pub open: bool,
    /// Whether what it acknowledged may be lost when it is killed.
    #[prost(bool, tag = "2")]
    pub buffers: bool,
    /// Whether what it acknowledged may be lost in a power cut.
    #[prost(bool, tag = "3")]
    pub relaxed: bool,
    /// Identifies the run of the system that it was in; empty when unknown.
    #[prost(string, tag = "4")]
    pub boot: String,
}

/// An entry as it is written.
pub(super) struct Encoded {
    pub snapshot: String,
    /// The row of the snapshot afterwards. Its objects, and default constraints
    /// that are not set, are those of the row before.
    pub row: SnapshotRow,
    pub step: Step,
    pub held: Vec<(Serial, Vec<u8>)>,
    pub ended: Vec<Serial>,
}

/// What an entry does to the objects.
pub(super) enum Step {
    Batch(Objects),
    /// The objects are those of the state aside in the row; with `true` the
    /// reservations are those of the entry alone.
    Replace(bool),
    Delete,
}

/// Changes of objects, as bytes.
#[derive(Default)]
pub(super) struct Objects {
    bytes: Vec<u8>,
    changes: Vec<(Range<usize>, Range<usize>, bool)>,
}

/// A change of an object.
pub(super) enum RowChange<'a> {
    /// Key and value.
    Put(&'a [u8], &'a [u8]),
    /// Key, and the uid that the object must have unless it is empty.
    Delete(&'a [u8], &'a str),
}

impl Encoded {
    pub fn of(entry: &Entry<'_>) -> Self {
        let (step, aside) = match entry.change {
            Change::Batch(objects) => (Step::Batch(encode_objects(objects)), 0),
            Change::Replaced(aside) => (Step::Replace(false), aside.0),
            Change::Rewritten(aside) => (Step::Replace(true), aside.0),
            Change::Deleted => (Step::Delete, 0),
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
            },
            step,
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

impl Objects {
    /// The changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = RowChange<'_>> {
        self.changes.iter().map(|(key, value, is_put)| {
            let (key, value) = (&self.bytes[key.clone()], &self.bytes[value.clone()]);
            if *is_put {
                RowChange::Put(key, value)
            } else {
                let uid = std::str::from_utf8(value).expect("a uid is text");
                RowChange::Delete(key, uid)
            }
        })
    }
}

/// Encodes changes.
pub(super) fn encode_objects(objects: &[Object]) -> Objects {
    let mut encoded = Objects::default();
    encoded.changes.reserve(objects.len());
    for object in objects {
        let bytes = &mut encoded.bytes;
        let start = bytes.len();
        let id = Identity::of(object);
        bytes.push(kind_byte(id.kind));
        bytes.extend_from_slice(id.namespace.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(id.name.as_bytes());
        let key = start..bytes.len();
        let is_put = !matches!(object, Object::Delete(_));
        if is_put {
            bytes.extend_from_slice(&[0; CHECKSUM]);
        }
        encode_object(object, bytes);
        let value = key.end..bytes.len();
        if is_put {
            let sum = checksum(&bytes[key.clone()], &bytes[key.end + CHECKSUM..]);
            bytes[key.end..key.end + CHECKSUM].copy_from_slice(&sum);
        }
        encoded.changes.push((key, value, is_put));
    }
    encoded
}

fn encode_object(object: &Object, bytes: &mut Vec<u8>) {
    let encoded = match object {
        Object::Node(node) => node.encode(bytes),
        Object::Pod(pod) => pod.encode(bytes),
        Object::Service(service) => service.encode(bytes),
        Object::ReplicaSet(set) => set.encode(bytes),
        Object::StatefulSet(set) => set.encode(bytes),
        Object::ReplicationController(controller) => controller.encode(bytes),
        Object::Delete(reference) => {
            bytes.extend_from_slice(reference.uid.as_bytes());
            Ok(())
        }
    };
    encoded.expect("a vector has room");
}

/// The object of a row; why there is none.
pub(super) fn decode_object(key: &[u8], value: &[u8]) -> Result<Object, String> {
    let bytes = unseal(key, value)?;
    let kind = key.first().copied().unwrap_or_default();
    let decoded = match kind {
        NODE => v1::Node::decode(bytes).map(Object::Node),
        SERVICE => v1::Service::decode(bytes).map(Object::Service),
        REPLICA_SET => v1::ReplicaSet::decode(bytes).map(Object::ReplicaSet),
        STATEFUL_SET => v1::StatefulSet::decode(bytes).map(Object::StatefulSet),
        REPLICATION_CONTROLLER => {
            v1::ReplicationController::decode(bytes).map(Object::ReplicationController)
        }
        POD => v1::Pod::decode(bytes).map(Object::Pod),
        _ => return Err(format!("an object is of the unknown kind {kind}")),
    };
    decoded.map_err(|error| format!("an object cannot be read: {error}"))
}

/// The uid of the object of a row; why there is none.
pub(super) fn uid_of(key: &[u8], value: &[u8]) -> Result<String, String> {
    let metadata = match decode_object(key, value)? {
        Object::Node(node) => node.metadata,
        Object::Pod(pod) => pod.metadata,
        Object::Service(service) => service.metadata,
        Object::ReplicaSet(set) => set.metadata,
        Object::StatefulSet(set) => set.metadata,
        Object::ReplicationController(controller) => controller.metadata,
        Object::Delete(_) => None,
    };
    Ok(metadata.unwrap_or_default().uid)
}

// Nodes come first, then what selects pods, then pods.
const NODE: u8 = 1;
const SERVICE: u8 = 2;
const REPLICA_SET: u8 = 3;
const STATEFUL_SET: u8 = 4;
const REPLICATION_CONTROLLER: u8 = 5;
const POD: u8 = 6;

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Node => NODE,
        Kind::Owner(OwnerKind::Service) => SERVICE,
        Kind::Owner(OwnerKind::ReplicaSet) => REPLICA_SET,
        Kind::Owner(OwnerKind::StatefulSet) => STATEFUL_SET,
        Kind::Owner(OwnerKind::ReplicationController) => REPLICATION_CONTROLLER,
        Kind::Pod => POD,
    }
}

impl HeldRow {
    fn of(held: &Held) -> Self {
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
        }
    }

    pub fn into_held(self) -> Held {
        let claim = self.pod.map(|pod| Claim {
            name: pod.name.into(),
            uid: pod.uid.into(),
        });
        Held {
            hold: Hold {
                owner: self.owner.into(),
                ttl: Duration::from_nanos(self.ttl.unsigned_abs()),
                namespace: self.namespace.into(),
                labels: Arc::new(self.labels),
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

const CHECKSUM: usize = 4;

fn checksum(key: &[u8], bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}

/// A row as it is kept under a key.
pub(super) fn seal(key: &[u8], row: &impl Message) -> Vec<u8> {
    let mut value = vec![0; CHECKSUM];
    row.encode(&mut value).expect("a vector has room");
    let sum = checksum(key, &value[CHECKSUM..]);
    value[..CHECKSUM].copy_from_slice(&sum);
    value
}

/// A row that is kept under a key; why it cannot be read.
pub(super) fn open<R: Message + Default>(key: &[u8], value: &[u8]) -> Result<R, String> {
    let bytes = unseal(key, value)?;
    R::decode(bytes).map_err(|error| format!("a row cannot be read: {error}"))
}

fn unseal<'v>(key: &[u8], value: &'v [u8]) -> Result<&'v [u8], String> {
    match value.split_first_chunk::<CHECKSUM>() {
        Some((sum, bytes)) if *sum == checksum(key, bytes) => Ok(bytes),
        _ => Err("the checksum of a row is wrong".to_owned()),
    }
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The time of so many nanoseconds since 1970.
pub(super) fn time(nanos: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos.unsigned_abs())
}
