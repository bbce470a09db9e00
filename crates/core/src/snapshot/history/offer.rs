//! The changes that clients want in a snapshot, the results, and the reasons why one is refused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::journal::JournalError;
use crate::limits::Exceeded;
use crate::matching::{KubernetesVersion, Violations};
use crate::snapshot::clock::Moment;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::resource_versions::{OtherCluster, ResourceVersions};
use crate::snapshot::state::revision::Applied;

/// A batch that a client wants applied.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The changes.
    pub batch: Arc<Batch>,
    /// Default constraints to set.
    pub defaults: Option<Arc<Defaults>>,
    /// The version of Kubernetes to set.
    pub version: Option<KubernetesVersion>,
    /// The versions up to which the feed has read kinds with this batch, where it gives any.
    pub resource_versions: ResourceVersions,
    /// The revision that the snapshot must have.
    pub expected_revision: Option<i64>,
    /// The right that the batch needs, if it needs one.
    pub fence: Option<Fence>,
    /// The moment when the server had read the batch, by the clock of the registry.
    pub arrived: Moment,
    /// The age of the feed's knowledge at that moment.
    pub age: Duration,
}

impl Offer {
    /// A batch that arrived at this moment and asks for nothing else.
    pub fn of(batch: Arc<Batch>, arrived: Moment) -> Self {
        Self {
            batch,
            defaults: None,
            version: None,
            resource_versions: ResourceVersions::default(),
            expected_revision: None,
            fence: None,
            arrived,
            age: Duration::ZERO,
        }
    }
}

/// A right to change a snapshot that may end, such as a lease. It is checked each time a change is
/// checked, after the entries of others were read. So if the right ends before another server gets
/// it, nothing of the former holder comes after the entries of the new holder.
#[derive(Clone)]
pub struct Fence {
    /// Returns the number of the present tenure, if there is one.
    tenure: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The tenure in which the change was wanted.
    wanted_in: Option<u64>,
}

impl Fence {
    /// A right that is held while `tenure` returns a number. Each tenure has a new number.
    pub fn new(tenure: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self {
            tenure: Arc::new(tenure),
            wanted_in: None,
        }
    }

    /// The right at this moment: it covers changes that are wanted now, and not in a later tenure.
    #[must_use]
    pub fn of_now(&self) -> Self {
        Self {
            wanted_in: (self.tenure)(),
            ..self.clone()
        }
    }

    fn is_held(&self) -> bool {
        self.wanted_in.is_some() && (self.tenure)() == self.wanted_in
    }

    /// Checks that a change of a snapshot may still be made, if it needs a right.
    ///
    /// # Errors
    /// [`Error::Superseded`].
    pub(super) fn check(fence: Option<&Self>, snapshot: &str) -> Result<(), Error> {
        match fence {
            Some(fence) if !fence.is_held() => Err(Error::Superseded(snapshot.to_owned())),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&self.is_held()).finish()
    }
}

/// A sign that a feed is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedSign {
    /// The moment when the batch arrived.
    pub arrived: Moment,
    /// The age of the feed's knowledge then.
    pub age: Duration,
}

/// Checks that a batch may be applied at a revision.
///
/// # Errors
/// [`Error::RevisionMismatch`].
pub(super) fn check_revision(
    snapshot: &str,
    actual: i64,
    expected: Option<i64>,
) -> Result<(), Error> {
    match expected {
        Some(expected) if expected != actual => Err(Error::RevisionMismatch {
            snapshot: snapshot.to_owned(),
            expected,
            actual,
        }),
        _ => Ok(()),
    }
}

/// The result of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The revision after it.
    pub revision: i64,
    /// The epoch of the revision.
    pub epoch: String,
    /// The changes that it made.
    pub applied: Applied,
}

/// The results of the batches of a caller, in their order: of all of them, or of those up to the first
/// refused one. `None` when the snapshot was deleted meanwhile.
pub type Outcomes = Option<Vec<Result<Update, Error>>>;

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
}
