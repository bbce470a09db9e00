//! Counters of the work of snapshots since the server started, for metrics. They cover all
//! snapshots together, so that no counter ever falls.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of work since the registry was made.
#[derive(Debug, Default)]
pub struct SnapshotCounters {
    /// Counts of a decision that a kept view answered.
    pub view_hits: AtomicU64,
    /// Counts of a decision for which a view had to be built.
    pub view_builds: AtomicU64,
    /// Views that were dropped: idle, out of room, or cheaper to build again.
    pub views_dropped: AtomicU64,
    /// Batches applied, replaces among them.
    pub batches: AtomicU64,
    /// Replaces among the batches.
    pub replaces: AtomicU64,
    /// Changes that made a difference.
    pub changed: AtomicU64,
    /// Changes that made no difference.
    pub unchanged: AtomicU64,
    /// Reservations made.
    pub reserved: AtomicU64,
    /// Reservations that ended by time alone.
    pub expired: AtomicU64,
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}
