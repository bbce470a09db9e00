//! Why a feed begins anew.

use super::error::Error;
use super::sink::Undone;

/// Why a feed begins anew.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The cluster cannot be found, or its default constraints cannot be read.
    #[error(transparent)]
    Cluster(#[from] Error),
    /// The server did not do a step.
    #[error("the snapshot cannot be fed: {0}")]
    Undone(#[from] Undone),
    /// The snapshot was deleted, or the server restarted.
    #[error("the snapshot has another history")]
    OtherHistory,
    /// The lease was lost: another server feeds, or may.
    #[error("another server may feed now")]
    Superseded,
    /// A list of one kind differs in more than goes into one batch.
    #[error("{0} {1} changed while the watch was broken")]
    TooManyChanges(usize, &'static str),
}
