//! The interface of an engine that keeps logs, and the errors of its calls.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prost::bytes::Bytes;

use crate::visible;

/// A result that the caller awaits.
pub type Wait<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keeps one log for each snapshot, blobs beside them, and a few keys. All
/// servers of a fleet share it. Names of snapshots may hold any character: the
/// engine encodes them.
///
/// A method that has a limit of time `within` returns not much later than
/// that. Others have a limit of the engine's own, of seconds.
pub trait Log: Send + Sync {
    /// The names of the snapshots that have a log, in any order.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn names(&self) -> Wait<'_, Vec<String>>;

    /// Appends a message to the log of a snapshot if the sequence of its last
    /// message is `after`, and returns the sequence of the new one, which is
    /// `after` + 1. The check and the append are one step. The message is on
    /// as many disks as the engine promises when this returns. With `after` 0 a log that does not exist
    /// is created.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Unreachable`], [`Error::UnknownFate`],
    /// [`Error::Full`], and [`Error::NotFound`] when there is no log and
    /// `after` is not 0.
    fn append_if<'a>(
        &'a self,
        name: &'a str,
        after: u64,
        message: Bytes,
        within: Duration,
    ) -> Wait<'a, u64>;

    /// Follows the log of a snapshot from the message after a sequence. This returns at once; the
    /// follower connects in the background.
    fn follow(&self, name: &str, after: u64) -> Arc<dyn Follower>;

    /// The number of the connection to the engine. It changes each time that the connection was
    /// lost: anything may have happened to a log meanwhile.
    fn connection(&self) -> u64;

    /// The range of messages that the log of a snapshot holds. The leader answers: every message
    /// that was acknowledged before is in the range.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unreachable`] and [`Error::Full`].
    fn bounds<'a>(&'a self, name: &'a str) -> Wait<'a, Bounds>;

    /// Reads one message from the leader.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn read<'a>(&'a self, name: &'a str, sequence: u64) -> Wait<'a, Message>;

    /// The ranges of messages in all logs and beside them, from one query.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn survey(&self) -> Wait<'_, FleetBounds>;

    /// Returns what this server may not do at the engine, in words for people.
    fn troubles(&self) -> Vec<String>;

    /// Drops the messages before a sequence. The other messages keep their sequences.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn trim<'a>(&'a self, name: &'a str, before: u64) -> Wait<'a, ()>;

    /// Deletes the log of a snapshot if it ends with the message `last`, after which nobody
    /// appends. A log that was made anew under the name is never deleted, however late the call
    /// arrives.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the log ends with another message, [`Error::NotFound`] and
    /// [`Error::Unreachable`].
    fn remove_if<'a>(&'a self, name: &'a str, last: &'a Message) -> Wait<'a, ()>;

    /// Data that is too large for records. The value under a name never changes.
    fn blobs(&self) -> &dyn Values;

    /// A few small values that change: leases and notes of the servers.
    fn keys(&self) -> &dyn Values;
}

/// Follows one log. Several threads may ask at the same time.
pub trait Follower: Send + Sync {
    /// The first message after a sequence, once there is one; `None` when none came in time. The
    /// message stays until somebody asks with its sequence or a higher one. So `after` never
    /// decreases, except for callers that only wait and do not use the message.
    ///
    /// A message is handed over as it was received. It may be damaged, or not be the next one: the
    /// reader has to check it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unreachable`], [`Error::Trimmed`] and [`Error::Shorter`]. All
    /// may be temporary; the caller asks again after a pause.
    fn next(&self, after: u64, within: Duration) -> Wait<'_, Option<Message>>;
}

/// Keeps values by name, each as large as a message: blobs, of which none ever changes, and keys,
/// which change by compare-and-set.
pub trait Values: Send + Sync {
    /// A value and its revision, as the leader has it; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Option<(Bytes, u64)>>;

    /// Sets a value if its revision is `revision`, or if it does not exist and `revision` is
    /// `None`. Returns the new revision. The value is on as many disks as the engine promises then.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Unreachable`], [`Error::UnknownFate`] and [`Error::Full`].
    fn set_if<'a>(&'a self, name: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64>;

    /// The names that begin with this, in any order.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<String>>;

    /// Drops a value, if it is there.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn remove<'a>(&'a self, name: &'a str) -> Wait<'a, ()>;
}

/// The reason why a call to a log failed. The kinds differ in what the caller knows afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The log does not end where the caller said, or a key does not have the
    /// revision that the caller said. Nothing was done.
    #[error("somebody else was first")]
    Conflict,
    /// The log cannot be reached. Nothing was done.
    #[error("the log cannot be reached: {}", visible::brief(.0))]
    Unreachable(String),
    /// No answer came: the call may have been done, or may still be done.
    #[error("the log did not answer: {}", visible::brief(.0))]
    UnknownFate(String),
    /// The log may not grow. Nothing was done.
    #[error("the log is full: {}", visible::brief(.0))]
    Full(String),
    /// There is no log of this snapshot, no such message or blob.
    #[error("not in the log: {}", visible::brief(.0))]
    NotFound(String),
    /// Messages right after the caller's place are no longer kept; the log begins with this
    /// sequence.
    #[error("the log begins at {0}")]
    Trimmed(u64),
    /// The log ends before the caller's place, because it lost its end, or was deleted and made
    /// anew: then it may end anywhere. Holds the sequence of its last message.
    #[error("the log ends at {0}, before what was read of it")]
    Shorter(u64),
    /// Anything else, such as a missing permission. Nothing was done.
    #[error("{}", visible::brief(.0))]
    Refused(String),
}

/// A message of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The number of the message in the log, from 1, without gaps.
    pub sequence: u64,
    /// The time when the engine took the message, by its clock.
    pub at: SystemTime,
    /// The message.
    pub bytes: Bytes,
}

/// The range of messages that a log holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The sequence of the first message that is kept; `last` + 1 when none is.
    pub first: u64,
    /// The sequence of the last message that was ever appended; 0 before that.
    pub last: u64,
    /// The bytes that the messages take.
    pub bytes: u64,
    /// The most bytes that the messages may take; 0 without a limit.
    pub max_bytes: u64,
    /// The number of servers that keep the log.
    pub copies: usize,
    /// The names of those servers that have not followed the leader to the end of the log, or are
    /// away. They do not count when a leader has to be elected.
    pub behind: Vec<String>,
    /// The time of the leader, by its clock; `None` in an answer about all logs.
    pub now: Option<SystemTime>,
}

/// The ranges of messages that a fleet keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetBounds {
    /// The logs, by snapshot.
    pub logs: HashMap<String, Bounds>,
    /// The places where blobs and keys are kept, by name.
    pub beside: BTreeMap<String, Bounds>,
}

impl Bounds {
    /// Returns whether enough servers keep the log now for a record to be acknowledged. A leader
    /// without a majority still answers reads.
    pub fn has_majority(&self) -> bool {
        2 * self.current() > self.copies
    }

    /// Returns how many servers have the whole log now.
    pub fn current(&self) -> usize {
        self.copies.saturating_sub(self.behind.len())
    }
}
