//! An answer that is kept for a while, so that the same request gets it again
//! and nothing is reserved twice.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::reservation::time_left;
use crate::account::heap;
use crate::snapshot::clock::{Moment, Now};

/// A request that its caller may send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retryable {
    /// Hash of its caller and of the id that the caller gave it: those of two
    /// callers never meet.
    pub key: [u8; 32],
    /// Hash of what it asks for.
    pub question: [u8; 32],
}

/// An answer, kept for as long as what it reserved was to be held.
#[derive(Debug, Clone)]
pub struct KeptAnswer {
    /// What was asked.
    pub request: Retryable,
    /// What was answered, as bytes that the caller knows how to read.
    pub answer: Arc<[u8]>,
    /// For how long.
    pub ttl: Duration,
    /// When it is forgotten, by the wall clock at the moment of the answer.
    pub expires: SystemTime,
}

impl KeptAnswer {
    /// What it takes in memory where it is kept.
    pub fn memory_bytes(&self) -> usize {
        // It is in two trees, half full at worst, and found by its key.
        const PLACES: usize = 2 * (size_of::<KeptAnswer>() + 64) + 2 * size_of::<([u8; 32], u64)>();
        PLACES + heap::shared(self.answer.len())
    }

    /// When it is forgotten, if it is so now.
    pub fn ends(&self, now: Now) -> Moment {
        time_left(self.expires, self.ttl, now)
    }
}
