//! The counts of a replica, for telemetry.

use std::sync::atomic::{AtomicU64, Ordering};

/// The events since the start, of all snapshots.
#[derive(Debug, Default)]
pub struct Counts {
    /// Records that were appended.
    pub appended: AtomicU64,
    /// Records of others that were applied.
    pub followed: AtomicU64,
    /// Appends that lost against those of others.
    pub conflicts: AtomicU64,
    /// Appends that got no answer.
    pub unknown_fates: AtomicU64,
    /// Messages that no reader applies.
    pub voids: AtomicU64,
    /// The number of times that a message that was there did not come in time.
    pub stalls: AtomicU64,
    /// The number of times that a snapshot was given up because of the content of its log.
    pub quarantines: AtomicU64,
    /// Snapshots that were read anew, from a checkpoint or from the beginning.
    pub bootstraps: AtomicU64,
    /// Checkpoints that were written.
    pub checkpoints: AtomicU64,
}

/// The progress of a replica in the log of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lag {
    /// Name of the snapshot.
    pub snapshot: String,
    /// The sequence of the last message that was applied.
    pub applied: u64,
    /// The sequence that the last checkpoint covers; 0 when none is known.
    pub checkpoint: u64,
    /// The reason why the log is followed no longer, if there is one.
    pub trouble: Option<String>,
}

/// Counts one more.
pub fn note(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
