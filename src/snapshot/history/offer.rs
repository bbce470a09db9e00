//! What clients want to change in a snapshot, and the results.

use std::sync::Arc;

use super::error::Error;
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
    /// The revision to apply at.
    pub expected_revision: Option<i64>,
    /// When the server had read it, by the clock of the registry.
    pub arrived: Moment,
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

/// The results of a job, in its order: of all its batches, or of those up to
/// the first refused one. `None` when the snapshot was deleted meanwhile.
pub type Outcomes = Option<Vec<Result<Update, Error>>>;
