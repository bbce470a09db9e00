//! Why a log does not do what was asked.

/// Why a log does not do what was asked. The kinds differ in what the caller
/// knows afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The log does not end where the caller said, or a key does not have the
    /// revision that the caller said. Nothing was done.
    #[error("somebody else was first")]
    Conflict,
    /// The log cannot be reached. Nothing was done.
    #[error("the log cannot be reached: {0}")]
    Unreachable(String),
    /// No answer came: it may have been done, or may still be.
    #[error("the log did not answer: {0}")]
    UnknownFate(String),
    /// The log may not grow. Nothing was done.
    #[error("the log is full: {0}")]
    Full(String),
    /// There is no log of this snapshot, no such message or blob.
    #[error("not in the log: {0}")]
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
    #[error("{0}")]
    Refused(String),
}
