//! Counters of the work of snapshots since the server started, for metrics. They cover all
//! snapshots together, so that no counter ever falls.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The parts of a count that many threads raise at once.
const STRIPES: usize = 16;

/// The counts of work since the registry was made.
#[derive(Debug, Default)]
pub struct SnapshotCounters {
    /// Counts of a decision that a kept view answered.
    pub view_hits: Striped,
    /// Counts of a decision for which a view had to be built.
    pub view_builds: Striped,
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
    /// Views that were verified in the background.
    pub verified_views: AtomicU64,
    /// Numbers that the background verification found to have drifted. Any number but 0 is a fault
    /// of the program.
    pub mismatches: AtomicU64,
    /// Snapshots that were rebuilt because of drift.
    pub repairs: AtomicU64,
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}

/// A striped counter: each thread raises its own stripe. Decisions raise it,
/// and would contend for one shared cache line.
#[derive(Debug, Default)]
pub struct Striped([PaddedCount; STRIPES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedCount(AtomicU64);

impl Striped {
    /// Counts one more.
    pub fn count_one(&self) {
        static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static PART: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed) % STRIPES;
        }
        let part = PART.with(|part| *part);
        self.0[part].0.fetch_add(1, Ordering::Relaxed);
    }

    /// The sum of all parts.
    pub fn sum(&self) -> u64 {
        self.0
            .iter()
            .map(|part| part.0.load(Ordering::Relaxed))
            .sum()
    }
}
