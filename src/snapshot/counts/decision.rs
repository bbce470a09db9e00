//! Identifies decisions.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells decisions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionId(u64);

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
