//! The counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use evenkeel_core::snapshot::JournalError;

/// Counters of a store, for metrics.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// Transactions committed.
    pub commits: AtomicU64,
    /// The total time of these commits in nanoseconds.
    pub commit_nanos: AtomicU64,
    /// Bytes of the state on the disk.
    pub bytes: AtomicU64,
    /// Calls that were refused because the disk was full.
    pub refused_for_space: AtomicU64,
    /// The time in nanoseconds that reading the state back took at the start.
    pub restore_nanos: AtomicU64,
    /// The reason why the store cannot write, while it cannot.
    trouble: Mutex<Option<JournalError>>,
}

impl StoreCounts {
    /// The reason why updates are refused; `None` while they are taken.
    pub fn trouble(&self) -> Option<JournalError> {
        self.trouble.lock().clone()
    }

    /// Records whether a write succeeded, and logs when that changes.
    pub(super) fn note_trouble(&self, trouble: Option<&JournalError>) {
        let before = std::mem::replace(&mut *self.trouble.lock(), trouble.cloned());
        match (before, trouble) {
            (None, Some(why)) => {
                tracing::error!(%why, "read-only: the state directory cannot be written");
            }
            (Some(_), None) => tracing::info!("the state directory is written again"),
            _ => {}
        }
    }

    pub(super) fn note_commit(&self, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_nanos.fetch_add(nanos(took), Ordering::Relaxed);
    }

    pub(super) fn note_restored(&self, took: Duration) {
        self.restore_nanos.store(nanos(took), Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
