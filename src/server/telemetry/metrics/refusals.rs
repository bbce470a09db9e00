//! What was refused, by limit.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::Limit;

/// How many calls and connections were refused for each limit. Refusals are
/// rare, or calls are cheap, so all threads share this.
#[derive(Debug)]
pub(in crate::server) struct Refusals([AtomicU64; Limit::ALL.len()]);

impl Default for Refusals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Refusals {
    /// Notes one.
    pub(in crate::server) fn note(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub(super) fn count(&self, limit: Limit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }
}
