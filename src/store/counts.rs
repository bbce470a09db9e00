//! The counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::last_commit::Loss;
use crate::snapshot::JournalError;

/// Counters of a store, for metrics.
#[derive(Debug, Default)]
pub struct StoreCounts {
    commits: AtomicU64,
    commit_nanos: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    restore_nanos: AtomicU64,
    lost_commits: AtomicU64,
    /// The reason why the store cannot write, while it cannot.
    trouble: Mutex<Option<JournalError>>,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFigures {
    /// Transactions committed.
    pub commits: u64,
    /// The total time of these commits.
    pub commit_time: Duration,
    /// Bytes of the state on the disk.
    pub bytes: u64,
    /// Calls that were refused because the disk was full.
    pub refused_for_space: u64,
    /// The time that reading the state back took at the start.
    pub restore_time: Duration,
    /// True if the store could write when it last tried.
    pub is_writable: bool,
    /// Commits that the file had lost when it was opened; 1 when the number is
    /// unknown.
    pub lost_commits: u64,
}

impl StoreCounts {
    /// The counters now.
    pub fn figures(&self) -> StoreFigures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreFigures {
            commits: get(&self.commits),
            commit_time: Duration::from_nanos(get(&self.commit_nanos)),
            bytes: get(&self.bytes),
            refused_for_space: get(&self.refused),
            restore_time: Duration::from_nanos(get(&self.restore_nanos)),
            is_writable: self.trouble.lock().is_none(),
            lost_commits: get(&self.lost_commits),
        }
    }

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

    pub(super) fn note_loss(&self, loss: Loss) {
        let commits = match loss {
            Loss::Commits(count) => count,
            Loss::Unknown => 1,
        };
        self.lost_commits.fetch_add(commits, Ordering::Relaxed);
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
