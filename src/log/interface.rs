//! What an engine offers that keeps logs, and why it does not do what was asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prost::bytes::Bytes;

use crate::visible;

/// A result that is waited for.
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

    /// Follows the log of a snapshot from the message after a sequence. It
    /// returns at once, and connects when it is asked.
    fn follow(&self, name: &str, after: u64) -> Arc<dyn Follower>;

    /// The number of the connection to the engine: another one after each time that it
    /// was lost. Whatever may have happened to a log meanwhile is not known.
    fn connection(&self) -> u64;

    /// Which messages the log of a snapshot holds. The answer is that of the
    /// servers that decide: a message that was acknowledged before is in it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unreachable`] and [`Error::Full`].
    fn bounds<'a>(&'a self, name: &'a str) -> Wait<'a, Bounds>;

    /// The time of the server that decides on the log of a snapshot, by its clock.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unreachable`] and [`Error::Full`].
    fn time<'a>(&'a self, name: &'a str) -> Wait<'a, SystemTime>;

    /// Reads one message, as the server has it that decides.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn read<'a>(&'a self, name: &'a str, sequence: u64) -> Wait<'a, Message>;

    /// Reads so many messages from a sequence on, as each server has them that keeps the
    /// log and can be reached: those that it has of them, in order.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn read_copies<'a>(
        &'a self,
        name: &'a str,
        from: u64,
        most: u64,
    ) -> Wait<'a, Vec<(String, Vec<Message>)>>;

    /// Counts what each server has that keeps the log of a snapshot; without a name, of
    /// what is kept besides the logs; `reads` all of it if told to, and does not count what is
    /// damaged. Where the server that decides lacks something that another one has, that one
    /// decides from then on.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn inspect<'a>(&'a self, name: Option<&'a str>, reads: bool) -> Wait<'a, Vec<LogCopy>>;

    /// Returns the known damages of copies, in words for people.
    fn troubles(&self) -> Vec<String>;

    /// Drops the messages before a sequence. The sequences of the others stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn trim<'a>(&'a self, name: &'a str, before: u64) -> Wait<'a, ()>;

    /// Deletes the log of a snapshot if it ends with a message, after which nobody
    /// appends. A log that was made anew under the name is never deleted, however
    /// late the call arrives.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it ends otherwise, [`Error::NotFound`] and
    /// [`Error::Unreachable`].
    fn remove_if<'a>(&'a self, name: &'a str, last: &'a Message) -> Wait<'a, ()>;

    /// Returns what is too large for messages.
    fn blobs(&self) -> &dyn Blobs;

    /// A few small values that change by compare-and-set.
    fn keys(&self) -> &dyn Keys;
}

/// Follows one log. Several threads may ask at the same time.
pub trait Follower: Send + Sync {
    /// The first message after a sequence, once there is one; `None` when none
    /// came in time. It stays until somebody asks with its sequence or a
    /// higher one. So `after` never decreases, except that of callers who only
    /// wait and do not use the message.
    ///
    /// A message is handed over as it was received. It may be damaged, or not
    /// be the next one: its reader has to know.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unreachable`], [`Error::Trimmed`] and
    /// [`Error::Shorter`]. All may pass; the caller asks again after a pause.
    fn next(&self, after: u64, within: Duration) -> Wait<'_, Option<Message>>;
}

/// Keeps blobs by name, of up to some 8 MiB each. What is kept under a name
/// never changes.
pub trait Blobs: Send + Sync {
    /// Keeps a blob. It is on as many disks as the engine promises when this
    /// returns. To put the same again does no harm.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::UnknownFate`] and [`Error::Full`].
    fn put<'a>(&'a self, name: &'a str, blob: Bytes) -> Wait<'a, ()>;

    /// Reads a blob whole. One that was just put may be missing for a moment.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Unreachable`].
    fn get<'a>(&'a self, name: &'a str) -> Wait<'a, Bytes>;

    /// The blobs whose names begin with this, in any order.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<Blob>>;

    /// Drops a blob, if it is there.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn drop_blob<'a>(&'a self, name: &'a str) -> Wait<'a, ()>;
}

/// Values that change by compare-and-set: leases and notes of the servers.
pub trait Keys: Send + Sync {
    /// A value and its revision; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn get<'a>(&'a self, key: &'a str) -> Wait<'a, Option<(Bytes, u64)>>;

    /// Sets a value whose revision is `revision`, or that does not exist where
    /// that is `None`; returns its revision afterwards.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Unreachable`] and [`Error::UnknownFate`].
    fn set_if<'a>(&'a self, key: &'a str, revision: Option<u64>, value: Bytes) -> Wait<'a, u64>;

    /// The keys that begin with this, each with its value, in any order.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    fn list<'a>(&'a self, prefix: &'a str) -> Wait<'a, Vec<(String, Bytes)>>;
}

/// The reason why a log does not do what was asked. The kinds differ in what the caller knows
/// afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The log does not end where the caller said, or a key does not have the
    /// revision that the caller said. Nothing was done.
    #[error("somebody else was first")]
    Conflict,
    /// The log cannot be reached. Nothing was done.
    #[error("the log cannot be reached: {}", visible::brief(.0))]
    Unreachable(String),
    /// No answer came: it may have been done, or may still be.
    #[error("the log did not answer: {}", visible::brief(.0))]
    UnknownFate(String),
    /// The log may not grow. Nothing was done.
    #[error("the log is full: {}", visible::brief(.0))]
    Full(String),
    /// There is no log of this snapshot, no such message or blob.
    #[error("not in the log: {}", visible::brief(.0))]
    NotFound(String),
    /// Messages that follow on the caller's place are no longer kept; the log
    /// begins with this sequence.
    #[error("the log begins at {0}")]
    Trimmed(u64),
    /// The log ends before the caller's place, because it lost its end, or was deleted
    /// and made anew: then it may end anywhere. The sequence of its last message.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// The number of these that have all of it now. The others do not count yet where a leader has
    /// to be elected.
    pub current: usize,
}

impl Bounds {
    /// Returns whether enough servers keep the log now for a record to be acknowledged. One
    /// that leads without them goes on telling what it has.
    pub fn has_majority(&self) -> bool {
        2 * self.current > self.copies
    }
}

/// A server's copy of something that several servers keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCopy {
    /// The server.
    pub server: String,
    /// The name of the thing that is copied.
    pub of: String,
    /// The number of messages that the copy has.
    pub has: u64,
    /// The number of messages that it has to have.
    pub wanted: u64,
    /// True if the copy has followed the one that decides up to its end.
    pub is_current: bool,
}

impl LogCopy {
    /// Returns whether it has all.
    pub fn is_whole(&self) -> bool {
        self.is_current && self.has >= self.wanted
    }

    /// Returns whether it lacks what it does not get any more.
    pub fn is_damaged(&self) -> bool {
        self.is_current && self.has < self.wanted
    }
}

impl std::fmt::Display for LogCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (server, of) = (visible::brief(&self.server), visible::brief(&self.of));
        let (has, wanted) = (self.has, self.wanted);
        write!(
            f,
            "server {server} of the log has {has} of {wanted} messages of {of}"
        )
    }
}

/// A blob in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The name of the blob.
    pub name: String,
    /// The size of the blob in bytes.
    pub bytes: u64,
    /// The time when the blob was put, by the engine's clock.
    pub at: SystemTime,
}
