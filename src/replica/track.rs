//! How far a replica has come in the log of one snapshot, and how that is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use super::digest::DigestVote;
use crate::log::record::GENESIS;
use crate::log::{EntryRow, Follower, Hash, Log, Message, Place};
use crate::snapshot::{JournalError, Moment, OwnedEntry, Standing, Whole};

/// How long a server waits for another one to append first, and for all others.
const TURN: Duration = Duration::from_millis(10);
const TURNS: Duration = Duration::from_millis(50);

/// The log of one snapshot, as far as it was read.
pub struct Track {
    /// Name of the snapshot.
    pub name: String,
    /// Locked by whoever reads or appends, who has the turn of the snapshot, or
    /// heals it.
    pub reading: Mutex<Reading>,
    /// The sequence of the last message that was applied.
    pub applied: AtomicU64,
    /// The sequence that the last known checkpoint covers.
    pub checkpoint: AtomicU64,
    /// A copy that is to be compared with those of other servers.
    pub copied: Mutex<Option<Copied>>,
    /// What this server says of the last one.
    pub ballot: Mutex<Option<Ballot>>,
}

/// What was read of a log.
pub struct Reading {
    /// Where the next record has to be.
    pub place: Place,
    /// The hash of the log up to the message before the last one.
    pub before: Hash,
    /// The connection by which the last message was found to be still that of the log.
    pub proved: u64,
    /// The time of the last record.
    pub at: i64,
    /// The sequence from which on it was read.
    pub since: u64,
    /// The last record after which servers compare what they hold, until it was applied.
    pub milestone: Option<Milestone>,
    /// The epoch of the last entry that was handed out; empty where the next one
    /// begins a snapshot.
    pub epoch: String,
    /// The number of that entry.
    pub sequence: u64,
    /// Entries that were read, and not handed out yet.
    pub ready: VecDeque<OwnedEntry>,
    /// Whether the log can be followed.
    pub condition: Condition,
    /// Reads it.
    pub follower: Arc<dyn Follower>,
    /// Whether it is closed, and will be removed: nothing is appended to it.
    pub is_closed: bool,
    /// Whether it is not known what became of the last record that was sent.
    pub is_unanswered: bool,
    /// The other servers that have appended since this one did.
    pub others: Vec<String>,
    /// The number of other servers that may append before this one does again, and until when
    /// it waits for them.
    pub owed: Option<(usize, Moment)>,
}

/// A record after which servers compare what they hold.
#[derive(Debug, Clone)]
pub struct Milestone {
    /// The epoch of its last entry.
    pub epoch: String,
    /// The number of that entry.
    pub entry: u64,
    /// The log.
    pub log_id: Uuid,
    /// The sequence of the record.
    pub sequence: u64,
}

/// A copy of a snapshot that is to be compared.
pub struct Copied {
    /// After which record it was made.
    pub at: Milestone,
    /// The sequence from which on the log was read.
    pub since: u64,
    /// The copy.
    pub whole: Whole,
}

/// What this server has to say of a record.
#[derive(Clone)]
pub struct Ballot {
    /// The record.
    pub at: Milestone,
    /// What it held.
    pub vote: DigestVote,
    /// How many rounds it still waits for what others say.
    pub rounds: u8,
}

/// Whether a log can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It can.
    Following,
    /// What comes next is not kept any more.
    Behind,
    /// The log ends with this sequence, before what was read of it.
    Ahead(u64),
    /// There is no log any more, and nobody has closed it. What was read of it answers
    /// until there is one again.
    Gone,
    /// What the log holds does not continue what was read, or what was read does
    /// not fit: nothing is answered before it was read anew.
    Quarantined(String),
    /// A later version has written to it: why that is seen.
    Later(String),
}

impl Track {
    /// Of a log that nothing was read of.
    pub fn new(name: &str, log: &dyn Log) -> Self {
        Self {
            name: name.to_owned(),
            reading: Mutex::new(Reading::from(Place::START, log, name)),
            applied: AtomicU64::new(0),
            checkpoint: AtomicU64::new(0),
            copied: Mutex::default(),
            ballot: Mutex::default(),
        }
    }
}

impl Reading {
    /// Of the log of a snapshot, from a place on, where the next entry begins one.
    pub fn from(place: Place, log: &dyn Log, name: &str) -> Self {
        Self {
            place,
            before: GENESIS,
            proved: log.connection(),
            at: 0,
            since: place.sequence,
            milestone: None,
            epoch: String::new(),
            sequence: 0,
            ready: VecDeque::new(),
            condition: Condition::Following,
            follower: log.follow(name, place.sequence),
            is_closed: false,
            is_unanswered: false,
            others: Vec::new(),
            owed: None,
        }
    }

    /// Whether a message is the last one that was read, as far as that can be told.
    pub fn ends_with(&self, message: &Message) -> bool {
        // Early checkpoints do not tell the hash before.
        let is_told = self.before != GENESIS || self.place.sequence == 1;
        !is_told || CheckpointRow::of(self).is_after(message)
    }

    /// Notes that somebody else has appended.
    pub fn note_other(&mut self, writer: &str) {
        if !self.others.iter().any(|other| other == writer) {
            self.others.push(writer.to_owned());
        }
        self.owed = match self.owed {
            Some((owed, until)) if owed > 1 => Some((owed - 1, until)),
            _ => None,
        };
    }

    /// Notes that this server has appended at a moment: it lets as many others come
    /// before it does so again as came since it did so before.
    pub fn note_own(&mut self, now: Moment) {
        let others = std::mem::take(&mut self.others).len();
        let span = TURN.saturating_mul(u32::try_from(others).unwrap_or(u32::MAX));
        self.owed = (others > 0).then(|| (others, now.after(span.min(TURNS))));
    }

    /// Notes the last entry that the snapshot has, or will have at once.
    pub fn stand_at(&mut self, epoch: &str, sequence: u64) {
        epoch.clone_into(&mut self.epoch);
        self.sequence = sequence;
    }

    /// Whether what was handed out is what servers compare.
    pub fn stands_at_milestone(&self) -> bool {
        let milestone = self.milestone.as_ref();
        milestone.is_some_and(|it| it.is_at(&self.epoch, self.sequence))
    }

    /// Notes that the next entry begins a snapshot.
    pub fn stand_before(&mut self) {
        self.stand_at("", 0);
    }

    /// Whether a snapshot stands where entries were handed out up to. If not, it
    /// is another one than that of this log, which was read anew.
    pub fn is_of(&self, at: Standing<'_>) -> bool {
        (&*self.epoch, self.sequence) == (at.epoch, at.sequence)
    }
}

impl Milestone {
    /// Whether a snapshot stands there.
    pub fn is_at(&self, epoch: &str, entry: u64) -> bool {
        (&*self.epoch, self.entry) == (epoch, entry)
    }
}

impl Condition {
    /// That the log can be followed.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self) -> Result<(), JournalError> {
        match self {
            Self::Following => Ok(()),
            _ => Err(self.refusal()),
        }
    }

    /// What those are told who want to change the snapshot.
    pub fn refusal(&self) -> JournalError {
        let trouble = self.trouble().unwrap_or_default();
        match self {
            Self::Quarantined(_) => JournalError::Untrusted(trouble),
            _ => JournalError::Unreachable(trouble),
        }
    }

    /// What is wrong, for people.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Following => None,
            Self::Behind => Some("what comes next is no longer in the log".to_owned()),
            Self::Gone => Some("the log is gone: somebody has deleted it".to_owned()),
            Self::Ahead(last) => Some(format!("the log ends at {last}, before what was read")),
            Self::Quarantined(why) => Some(why.clone()),
            Self::Later(why) => Some(format!("{why}: a later version has written to the log")),
        }
    }
}

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
