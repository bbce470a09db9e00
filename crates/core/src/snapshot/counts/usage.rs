//! The order in which views and partitions were used: the ones unused for longest are dropped first.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the views, partitions and sweeps of the process: a clock that is fine enough to order
/// uses of views and partitions.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that is given out once.
pub fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The time of the last use of a view or a partition.
#[derive(Debug)]
pub struct LastUse(AtomicU64);

impl LastUse {
    /// The first use, after all uses so far.
    pub fn now() -> Self {
        Self(AtomicU64::new(next_number()))
    }

    /// Records a further use.
    pub fn touch(&self) {
        let now = NUMBERS.load(Ordering::Relaxed);
        // A store of the same value would still take the cache line away from other readers.
        if self.time() != now {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// The time: a larger number is later.
    pub fn time(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
