//! Where a log was read up to, and what a snapshot was then.

use uuid::Uuid;

use super::track::Reading;
use crate::log::{EntryRow, Log, Message, Place};

/// A checkpoint, as it is kept.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CheckpointRow {
    /// The log.
    #[prost(bytes = "vec", tag = "1")]
    pub log_id: Vec<u8>,
    /// The sequence of the message that it comes after.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// The hash of the log up to that message.
    #[prost(bytes = "vec", tag = "3")]
    pub chain: Vec<u8>,
    /// The time of the last record, in nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub at: i64,
    /// The snapshot, as an entry that makes it anew.
    #[prost(message, optional, tag = "5")]
    pub snapshot: Option<EntryRow>,
    /// The hash of the log up to the message before that one.
    #[prost(bytes = "vec", tag = "6")]
    pub before: Vec<u8>,
}

impl CheckpointRow {
    /// Where a log was read up to, without the snapshot.
    pub fn of(reading: &Reading) -> Self {
        Self {
            log_id: reading.place.log_id.as_bytes().to_vec(),
            sequence: reading.place.sequence,
            chain: reading.place.hash.to_vec(),
            at: reading.at,
            snapshot: None,
            before: reading.before.to_vec(),
        }
    }

    /// Reads the log of a snapshot on from there.
    pub fn reading(&self, log: &dyn Log, name: &str) -> Option<Reading> {
        let reading = Reading::from(self.place()?, log, name);
        Some(Reading {
            at: self.at,
            before: self.before[..].try_into().unwrap_or(reading.before),
            ..reading
        })
    }

    /// The place in the log that it is of.
    pub fn place(&self) -> Option<Place> {
        Some(Place {
            log_id: Uuid::from_slice(&self.log_id).ok()?,
            sequence: self.sequence,
            hash: <[u8; 32]>::try_from(&self.chain[..]).ok()?,
        })
    }

    /// Whether the message that it comes after is this one.
    pub fn is_after(&self, message: &Message) -> bool {
        let before = <[u8; 32]>::try_from(&self.before[..]);
        let place = self.place().zip(before.ok());
        place.is_some_and(|(place, hash)| Place { hash, ..place }.after(message) == place)
    }
}
