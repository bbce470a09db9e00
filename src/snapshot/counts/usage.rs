//! Records the use of views and partitions by decisions: the least useful ones are dropped first.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::partition_in_use::unused_serial;

/// Tells decisions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionId(u64);

/// The last use of a view or partition, and whether several decisions used it.
#[derive(Debug)]
pub(in crate::snapshot) struct Usage {
    last_used: AtomicU64,
    /// The next serial number at the time of its last use: finer than ticks.
    found_at: AtomicU64,
    /// The decision that it was made for.
    made_for: DecisionId,
    /// True if another decision used it later.
    asked_again: AtomicBool,
}

impl DecisionId {
    /// An id that no other decision has. Each thread counts its own, because all threads would
    /// contend for the cache line of one counter.
    pub fn next() -> Self {
        static NEXT_THREAD: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NEXT: Cell<u64> = Cell::new(NEXT_THREAD.fetch_add(1, Ordering::Relaxed) << 40);
        }
        Self(NEXT.replace(NEXT.get() + 1))
    }
}

impl Clone for Usage {
    fn clone(&self) -> Self {
        let (asked_again, last_used, found_at) = self.worth();
        Self {
            last_used: AtomicU64::new(last_used),
            found_at: AtomicU64::new(found_at),
            made_for: self.made_for,
            asked_again: AtomicBool::new(asked_again),
        }
    }
}

impl Usage {
    /// The usage of a view or partition that was made for a decision at tick `now`, when `found_at`
    /// was the next serial number.
    pub fn new((now, by): (u64, DecisionId), found_at: u64) -> Self {
        Self {
            last_used: AtomicU64::new(now),
            found_at: AtomicU64::new(found_at),
            made_for: by,
            asked_again: AtomicBool::new(false),
        }
    }

    /// Records that a decision used the view or partition again, at tick `now`.
    pub fn touch(&self, now: u64, by: DecisionId) {
        // A store of the same value would still take the cache line away from other readers.
        for (kept, new) in [(&self.last_used, now), (&self.found_at, unused_serial())] {
            if kept.load(Ordering::Relaxed) != new {
                kept.store(new, Ordering::Relaxed);
            }
        }
        if self.made_for != by && !self.asked_again.load(Ordering::Relaxed) {
            self.asked_again.store(true, Ordering::Relaxed);
        }
    }

    /// The tick of the last use.
    pub fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Returns the worth: a larger one is kept longer. Use by several decisions comes first,
    /// then the time of the last use.
    pub fn worth(&self) -> (bool, u64, u64) {
        let found_at = self.found_at.load(Ordering::Relaxed);
        let asked_again = self.asked_again.load(Ordering::Relaxed);
        (asked_again, self.last_used(), found_at)
    }
}
