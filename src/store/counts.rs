//! What a store counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of a store, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    commits: AtomicU64,
    commit_nanos: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    restore_nanos: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Transactions committed.
    pub commits: u64,
    /// The time that these took, all together.
    pub commit_time: Duration,
    /// Bytes of the state on the disk.
    pub bytes: u64,
    /// Calls that were refused because the disk was full.
    pub refused_for_space: u64,
    /// How long it took to read the state back at the start.
    pub restore_time: Duration,
}

impl Counts {
    /// The counters now.
    pub fn figures(&self) -> Figures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            commits: get(&self.commits),
            commit_time: Duration::from_nanos(get(&self.commit_nanos)),
            bytes: get(&self.bytes),
            refused_for_space: get(&self.refused),
            restore_time: Duration::from_nanos(get(&self.restore_nanos)),
        }
    }

    pub(super) fn note_commit(&self, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_nanos.fetch_add(nanos(took), Ordering::Relaxed);
    }

    pub(super) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn note_restored(&self, took: Duration) {
        self.restore_nanos.store(nanos(took), Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
