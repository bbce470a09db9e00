//! The reasons why an update or a look-up is refused.

use std::time::Duration;

use super::journal::JournalError;
use crate::limits::Exceeded;
use crate::matching::Violations;
use crate::snapshot::objects::resource_versions::OtherCluster;

/// The reason why the registry refuses.
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
    /// The snapshot's feed was silent for too long.
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
        /// The age that is allowed.
        max_age: Duration,
    },
    /// The snapshot has another revision than the caller expected.
    #[error("snapshot {snapshot:?} is at revision {actual}, not at the expected {expected}")]
    RevisionMismatch {
        /// Name of the snapshot.
        snapshot: String,
        /// The value that the caller expected.
        expected: i64,
        /// The actual value.
        actual: i64,
    },
    /// The snapshot has another epoch than the caller expected.
    #[error("snapshot {snapshot:?} is of epoch {actual}, not of the expected {expected}")]
    EpochMismatch {
        /// Name of the snapshot.
        snapshot: String,
        /// The value that the caller expected.
        expected: String,
        /// The actual value.
        actual: String,
    },
    /// The journal did not accept the step; nothing was changed.
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
    /// The update is of another cluster than the snapshot. Nothing was changed.
    #[error("snapshot {0:?} {1}: feed another snapshot, or delete this one first")]
    OtherCluster(String, OtherCluster),
    /// The request exceeds a configured limit.
    #[error(transparent)]
    OverLimit(#[from] Exceeded),
}

impl Error {
    /// Returns whether another server was first, and nothing else was wrong.
    pub(super) fn is_behind(&self) -> bool {
        *self == Self::NotStored(JournalError::Behind)
    }

    /// Returns whether the step may have been recorded in spite of the error.
    pub(super) fn is_doubt(&self) -> bool {
        matches!(self, Self::NotStored(JournalError::UnknownFate { .. }))
    }
}
