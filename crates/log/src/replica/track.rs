//! The progress of a replica in the log of one snapshot, the row that keeps it, and the condition of the
//! log, which says whether it can be followed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::record::GENESIS;
use crate::{AsideRow, Follower, Hash, Log, Message, Place};
use evenkeel_core::snapshot::journal::Standing;
use evenkeel_core::snapshot::replacing::Successor;
use evenkeel_core::snapshot::{Entry, JournalError, Moment};

/// The number of epochs before the last one whose last revisions are known.
const FORMER: usize = 16;

/// The log of one snapshot, as far as it was read.
pub struct Track {
    /// Name of the snapshot.
    pub name: String,
    /// Locked by whoever has the turn of the snapshot and reads or appends, or heals it.
    pub reading: Mutex<Reading>,
    /// The sequence of the last message that was applied.
    pub applied: AtomicU64,
    /// The sequence that the last known checkpoint covers.
    pub checkpoint: AtomicU64,
    /// The moment when the log was last found full, and why, until it takes a record again.
    pub full: Mutex<Option<(Moment, String)>>,
    /// The snapshot that is read anew, while the one that was read before answers.
    pub anew: Mutex<Option<ReadAside>>,
}

/// A snapshot that is read anew.
pub struct ReadAside {
    /// The track, which says how far the log was read.
    pub track: Box<Track>,
    /// The snapshot.
    pub snapshot: Successor,
}

/// The place up to which a log was read.
pub struct Reading {
    /// The place that the next record has to follow on.
    pub place: Place,
    /// The hash of the log up to the message before the last one.
    pub before: Hash,
    /// The connection on which the last message was found to be still in the log.
    pub proved: u64,
    /// The time by the log's clock at a moment of this server's monotonic clock, once it was asked
    /// for to tell how old records are.
    pub log_time: Option<(SystemTime, Moment)>,
    /// True once the log was read to its end: what is read from then on has just been written.
    pub is_caught_up: bool,
    /// The moment when the deletion of the snapshot was read, after which nothing has begun.
    pub over: Option<Moment>,
    /// The epoch of the last entry that was handed out; empty where the next one
    /// begins a snapshot.
    pub epoch: String,
    /// The number of that entry.
    pub sequence: u64,
    /// The revision after that entry.
    pub revision: i64,
    /// The last revision of each of the latest former epochs.
    pub former: VecDeque<(String, i64)>,
    /// Entries that were read, and not handed out yet.
    pub ready: VecDeque<Entry>,
    /// The condition of the log, which says if it can be followed.
    pub condition: Condition,
    /// The follower that reads the log.
    pub follower: Arc<dyn Follower>,
    /// The record that closes the log, which will be removed: nothing is appended after it.
    pub closing: Option<Message>,
    /// True if the fate of the last record that was sent is unknown.
    pub is_unanswered: bool,
}

impl Track {
    /// Returns the track of a log as far as it was read.
    pub fn new(name: &str, reading: Reading) -> Self {
        Self {
            name: name.to_owned(),
            applied: AtomicU64::new(reading.place.sequence),
            reading: Mutex::new(reading),
            checkpoint: AtomicU64::new(0),
            full: Mutex::default(),
            anew: Mutex::default(),
        }
    }
}

impl Reading {
    /// Reads the log of a snapshot from a place on, where the next entry begins a snapshot.
    pub fn from(place: Place, log: &dyn Log, name: &str) -> Self {
        Self {
            place,
            before: GENESIS,
            proved: log.connection(),
            log_time: None,
            is_caught_up: false,
            over: None,
            epoch: String::new(),
            sequence: 0,
            revision: 0,
            former: VecDeque::new(),
            ready: VecDeque::new(),
            condition: Condition::Following,
            follower: log.follow(name, place.sequence),
            closing: None,
            is_unanswered: false,
        }
    }

    /// Returns whether a message is the last one that was read, as far as that can be told.
    pub fn ends_with(&self, message: &Message) -> bool {
        // Checkpoints of early versions do not tell the hash before.
        let is_told = self.before != GENESIS || self.place.sequence == 1;
        !is_told || CheckpointRow::of(self).is_after(message)
    }

    /// Notes the last entry that the snapshot has, or will have at once.
    pub fn stand_at(&mut self, epoch: &str, sequence: u64, revision: i64) {
        if self.epoch != epoch {
            let before = std::mem::replace(&mut self.epoch, epoch.to_owned());
            self.note_former(before, self.revision);
        }
        self.sequence = sequence;
        self.revision = revision;
        self.over = None;
    }

    /// Notes the last revision of an epoch that is over.
    fn note_former(&mut self, epoch: String, revision: i64) {
        if epoch.is_empty() {
            return;
        }
        self.former.retain(|(other, _)| *other != epoch);
        self.former.push_back((epoch, revision));
        if self.former.len() > FORMER {
            self.former.pop_front();
        }
    }

    /// The last revision that was handed out of an epoch; 0 where there was none.
    pub fn came_to(&self, epoch: &str) -> i64 {
        if self.epoch == epoch {
            return self.revision;
        }
        let former = self.former.iter().find(|(other, _)| other == epoch);
        former.map_or(0, |(_, revision)| *revision)
    }

    /// Returns whether an answer from this reading would be behind earlier answers of the same
    /// epoch.
    pub fn is_behind(&self, before: &Self) -> bool {
        !self.epoch.is_empty() && self.revision < before.came_to(&self.epoch)
    }

    /// Takes over the last revisions of the reading that this one succeeds.
    pub fn succeed(&mut self, before: &Self) {
        let own = std::mem::take(&mut self.former);
        for (epoch, revision) in before.former.iter().chain(&own) {
            self.note_former(epoch.clone(), *revision);
        }
        if before.epoch != self.epoch {
            self.note_former(before.epoch.clone(), before.revision);
        }
    }

    /// Notes that the next entry begins a snapshot.
    pub fn stand_before(&mut self, now: Moment) {
        self.stand_at("", 0, 0);
        self.over = Some(now);
    }

    /// Returns whether a snapshot stands at the last entry that was handed out. If not, this log
    /// belongs to another snapshot, which was read anew.
    pub fn is_of(&self, at: Standing<'_>) -> bool {
        (&*self.epoch, self.sequence) == (at.epoch, at.sequence)
    }
}

/// A checkpoint, as it is kept.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CheckpointRow {
    /// The log.
    #[prost(bytes = "vec", tag = "1")]
    pub log_id: Vec<u8>,
    /// The sequence of the message that the checkpoint comes after.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// The hash of the log up to that message.
    #[prost(bytes = "vec", tag = "3")]
    pub chain: Vec<u8>,
    /// The place of the snapshot in blobs: the entry that makes it anew, and its objects.
    #[prost(message, optional, tag = "4")]
    pub snapshot: Option<AsideRow>,
    /// The hash of the log up to the message before that one.
    #[prost(bytes = "vec", tag = "5")]
    pub before: Vec<u8>,
    /// The time when the snapshot was copied for a checkpoint, by the log's clock, in nanoseconds
    /// since 1970.
    #[prost(int64, tag = "6")]
    pub copied: i64,
}

impl CheckpointRow {
    /// Returns the place up to which a log was read, without the snapshot.
    pub fn of(reading: &Reading) -> Self {
        Self {
            log_id: reading.place.log_id.as_bytes().to_vec(),
            sequence: reading.place.sequence,
            chain: reading.place.hash.to_vec(),
            snapshot: None,
            before: reading.before.to_vec(),
            copied: 0,
        }
    }

    /// Reads the log of a snapshot on from the checkpoint.
    pub fn reading(&self, log: &dyn Log, name: &str) -> Option<Reading> {
        let reading = Reading::from(self.place()?, log, name);
        Some(Reading {
            before: self.before[..].try_into().unwrap_or(reading.before),
            ..reading
        })
    }

    /// The place of the checkpoint in the log.
    pub fn place(&self) -> Option<Place> {
        Some(Place {
            log_id: Uuid::from_slice(&self.log_id).ok()?,
            sequence: self.sequence,
            hash: <[u8; 32]>::try_from(&self.chain[..]).ok()?,
        })
    }

    /// Returns whether the checkpoint comes right after this message.
    pub fn is_after(&self, message: &Message) -> bool {
        let before = <[u8; 32]>::try_from(&self.before[..]);
        let place = self.place().zip(before.ok());
        place.is_some_and(|(place, hash)| Place { hash, ..place }.after(message) == place)
    }
}

/// The condition of a log, which says if it can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The log can be followed.
    Following,
    /// The log does not keep the next record any more.
    Behind,
    /// The log ends with this sequence, before what was read of it.
    Ahead(u64),
    /// The log is gone, and no record has closed it. The snapshot answers from what was read until
    /// there is a log again.
    Gone,
    /// The log does not continue what was read, or the records that were read do not fit: the
    /// snapshot answers nothing before it was read anew.
    Quarantined(String),
    /// A later version has written to the log. Holds the sign of that.
    Later(String),
}

impl Condition {
    /// Checks that the log can be followed.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&self) -> Result<(), JournalError> {
        match self {
            Self::Following => Ok(()),
            _ => Err(self.refusal()),
        }
    }

    /// Returns the error for callers that want to change the snapshot.
    pub fn refusal(&self) -> JournalError {
        let trouble = self.told();
        match self {
            Self::Quarantined(_) => JournalError::Untrusted(trouble),
            _ => JournalError::Unreachable(trouble),
        }
    }

    /// Returns the reason why the log is not followed.
    pub fn told(&self) -> String {
        match self {
            Self::Ahead(last) => format!("it is said to end at {last}, before what was read"),
            _ => self.trouble().unwrap_or_default(),
        }
    }

    /// Returns the fault, in words for people.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Following => None,
            // A leader that was cut off also reports an older end, for some seconds.
            Self::Ahead(_) => None,
            Self::Behind => Some("what comes next is no longer in the log".to_owned()),
            Self::Gone => Some("the log is gone: somebody has deleted it".to_owned()),
            Self::Quarantined(why) => Some(why.clone()),
            Self::Later(why) => Some(format!("{why}: a later version has written to the log")),
        }
    }
}
