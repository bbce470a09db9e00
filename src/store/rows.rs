//! Rows: stored values as bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::objects::{self, EncodedChanges};
use super::sealed::seal;
use crate::matching::Requests;
use crate::proto::v1;
use crate::snapshot::{Change, Claim, Entry, Hold, KeptAnswer, Reservation, Retryable, Serial};

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

/// A reservation, or an answer that is kept: they share their numbers.
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
    /// The answer. Then only `ttl` and `expires` have a meaning besides.
    #[prost(message, optional, tag = "9")]
    pub answer: Option<AnswerRow>,
}

/// An answer to a request that may come again.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnswerRow {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub question: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub answer: Vec<u8>,
}

/// What is kept under a number.
pub(super) enum Kept {
    Held(Reservation),
    Answer(KeptAnswer),
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
        let held = held.map(|(serial, held)| (*serial, HeldRow::of(held)));
        let answers = entry.answers.iter();
        let answers = answers.map(|(serial, answer)| (*serial, HeldRow::of_answer(answer)));
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
                .chain(answers)
                .map(|(serial, row)| (serial, seal(&held_key(entry.snapshot, serial), &row)))
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
            ttl: length(held.hold.ttl),
            namespace: held.hold.namespace.to_string(),
            labels: (*held.hold.labels).clone(),
            node: held.node.to_string(),
            expires: nanos(held.expires),
            pod,
            requests: held.hold.requests.to_wire(),
            answer: None,
        }
    }

    fn of_answer(kept: &KeptAnswer) -> Self {
        Self {
            ttl: length(kept.ttl),
            expires: nanos(kept.expires),
            answer: Some(AnswerRow {
                key: kept.request.key.to_vec(),
                question: kept.request.question.to_vec(),
                answer: kept.answer.to_vec(),
            }),
            ..Self::default()
        }
    }

    /// What it says; why that cannot be read.
    pub fn into_kept(mut self) -> Result<Kept, String> {
        let Some(AnswerRow {
            key,
            question,
            answer,
        }) = self.answer.take()
        else {
            return Ok(Kept::Held(self.into_held()));
        };
        let hash = |bytes: Vec<u8>| {
            let length = bytes.len();
            let hash = <[u8; 32]>::try_from(bytes);
            hash.map_err(|_| format!("a hash of an answer has {length} bytes"))
        };
        Ok(Kept::Answer(KeptAnswer {
            request: Retryable {
                key: hash(key)?,
                question: hash(question)?,
            },
            answer: answer.into(),
            ttl: Duration::from_nanos(self.ttl.unsigned_abs()),
            expires: time(self.expires),
        }))
    }

    fn into_held(self) -> Reservation {
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

/// A time span in nanoseconds.
fn length(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The time this many nanoseconds after 1970.
pub(super) fn time(nanos: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos.unsigned_abs())
}
