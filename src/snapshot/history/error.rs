//! Why an update or a look-up is refused.

use std::time::Duration;

use super::journal::JournalError;
use crate::account::Exhausted;
use crate::limits::Exceeded;
use crate::matching::Violations;

/// Why the registry refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request is wrong; nothing was changed.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// There is no such snapshot.
    #[error("snapshot {0:?} does not exist")]
    NotFound(String),
    /// Decisions are not answered before the first batch or replace.
    #[error("snapshot {0:?} is not synced yet")]
    NotSynced(String),
    /// The feed of the snapshot was not heard of for too long.
    #[error(
        "snapshot {snapshot:?} is stale: its feed was last heard of {} ago, over max-age of {}",
        humantime::format_duration(Duration::from_secs(age.as_secs())),
        humantime::format_duration(*max_age)
    )]
    Stale {
        /// Name of the snapshot.
        snapshot: String,
        /// The time since its last batch.
        age: Duration,
        /// What it may be.
        max_age: Duration,
    },
    /// The snapshot has another revision than the caller expected.
    #[error("snapshot {snapshot:?} is at revision {actual}, not at the expected {expected}")]
    RevisionMismatch {
        /// Name of the snapshot.
        snapshot: String,
        /// What the caller expected.
        expected: i64,
        /// What it is.
        actual: i64,
    },
    /// The snapshot has another epoch than the caller expected.
    #[error("snapshot {snapshot:?} is of epoch {actual}, not of the expected {expected}")]
    EpochMismatch {
        /// Name of the snapshot.
        snapshot: String,
        /// What the caller expected.
        expected: String,
        /// What it is.
        actual: String,
    },
    /// The journal did not take it; nothing was changed.
    #[error(transparent)]
    NotStored(JournalError),
    /// Other servers changed the snapshot first, again and again; nothing was
    /// changed.
    #[error("snapshot {0:?} is changed by other servers all the time; try again")]
    Contended(String),
    /// The right to change the snapshot has ended: another server has it, or may
    /// take it. Nothing was changed.
    #[error("another server may feed snapshot {0:?} now")]
    Superseded(String),
    /// Too much for a configured limit.
    #[error(transparent)]
    OverLimit(#[from] Exceeded),
}

impl Error {
    /// Returns whether somebody else was first, and nothing else was wrong.
    pub(super) fn is_behind(&self) -> bool {
        *self == Self::NotStored(JournalError::Behind)
    }

    /// Returns whether it may have been recorded all the same.
    pub(super) fn is_doubt(&self) -> bool {
        matches!(self, Self::NotStored(JournalError::UnknownFate(_)))
    }
}

impl From<Exhausted> for Error {
    fn from(exhausted: Exhausted) -> Self {
        Self::OverLimit(exhausted.into())
    }
}
