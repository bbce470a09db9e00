//! Which decisions use views and partitions, and when: those that are of least use
//! are dropped first.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::partition_in_use::unused_serial;

/// Tells decisions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionId(u64);

/// When something was used, and by whom.
#[derive(Debug)]
pub(in crate::snapshot) struct Usage {
    last_used: AtomicU64,
    /// Which serial number was the next one when it was last asked: finer than ticks.
    found_at: AtomicU64,
    /// The decision that it was made for.
    made_for: DecisionId,
    /// Whether another decision asked it after that.
    asked_again: AtomicBool,
}

impl DecisionId {
    /// One that no other decision has. Each thread counts its own, for one
    /// count would be a cache line that all threads take from each other.
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
    /// Made for a decision at tick `now`, after so many serial numbers.
    pub fn new((now, by): (u64, DecisionId), found_at: u64) -> Self {
        Self {
            last_used: AtomicU64::new(now),
            found_at: AtomicU64::new(found_at),
            made_for: by,
            asked_again: AtomicBool::new(false),
        }
    }

    /// Notes that a decision asked again, at tick `now`.
    pub fn touch(&self, now: u64, by: DecisionId) {
        // A store that changes nothing would still take the cache line away
        // from other readers.
        for (kept, new) in [(&self.last_used, now), (&self.found_at, unused_serial())] {
            if kept.load(Ordering::Relaxed) != new {
                kept.store(new, Ordering::Relaxed);
            }
        }
        if self.made_for != by && !self.asked_again.load(Ordering::Relaxed) {
            self.asked_again.store(true, Ordering::Relaxed);
        }
    }

    /// The tick of its last use.
    pub fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// A larger value is kept longer: first what several decisions asked, then what was
    /// asked last.
    pub fn worth(&self) -> (bool, u64, u64) {
        let found_at = self.found_at.load(Ordering::Relaxed);
        let asked_again = self.asked_again.load(Ordering::Relaxed);
        (asked_again, self.last_used(), found_at)
    }
}
