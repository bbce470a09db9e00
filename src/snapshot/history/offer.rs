//! What clients want to change in a snapshot, and the results.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use crate::matching::KubernetesVersion;
use crate::snapshot::clock::Moment;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::state::shards::Applied;

/// A batch that a client wants applied.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The changes.
    pub batch: Arc<Batch>,
    /// Default constraints to set.
    pub defaults: Option<Arc<Defaults>>,
    /// The version of Kubernetes to set.
    pub version: Option<KubernetesVersion>,
    /// The revision to apply at.
    pub expected_revision: Option<i64>,
    /// The right that it needs, if it needs one.
    pub fence: Option<Fence>,
    /// When the server had read it, by the clock of the registry.
    pub arrived: Moment,
    /// How old what its feed knows was then.
    pub age: Duration,
}

/// A right to change a snapshot that may end, such as a lease. It is asked for each
/// time a change is checked, after what others have appended was read. So where it
/// ends before somebody else gets it, nothing of the former holder comes after what the
/// new one appends.
#[derive(Clone)]
pub struct Fence {
    /// The number of the tenure now, if there is one.
    tenure: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The tenure in which the change was wanted.
    wanted_in: Option<u64>,
}

impl Fence {
    /// A right that is held while `tenure` gives a number, each time another one.
    pub fn new(tenure: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self {
            tenure: Arc::new(tenure),
            wanted_in: None,
        }
    }

    /// The right of this moment: of what is wanted now, and not in a later tenure.
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

    /// That a change of a snapshot may still be made, if it needs a right.
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

/// That a batch may be applied at a revision.
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

/// Where a batch brought its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The revision after it.
    pub revision: i64,
    /// The epoch of the revision.
    pub epoch: String,
    /// What it did.
    pub applied: Applied,
}

/// What a caller wants to happen to a snapshot.
#[derive(Clone)]
pub enum Job {
    /// Batches, one after another until one is refused.
    Offers(Arc<[Offer]>),
    /// The end of the reservations whose time is over, if there are any.
    Ends,
}

impl Job {
    /// Returns how many outcomes it has if nothing is refused; at least.
    pub fn len(&self) -> usize {
        match self {
            Self::Offers(offers) => offers.len(),
            Self::Ends => 0,
        }
    }
}

/// The results of a job, in its order: of all its batches, or of those up to
/// the first refused one. `None` when the snapshot was deleted meanwhile.
pub type Outcomes = Option<Vec<Result<Update, Error>>>;
