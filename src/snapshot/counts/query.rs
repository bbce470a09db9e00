//! What is asked of the counts, and which of that was asked recently: a view is
//! worth keeping only if its query comes again.

use std::hash::{BuildHasher, RandomState};

use super::partition;
use crate::account::heap;
use crate::matching::Selector;

/// How many queries are remembered, each as a hash in its own place. If another
/// query takes the place, the first one must come twice again.
const PLACES: usize = 4_096;

/// A question: how many pods that match `selector` count in each domain of a
/// partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Which pods are counted.
    pub selector: &'a Selector,
    /// Which nodes are looked at, and what parts them.
    pub partition: &'a partition::Key,
}

/// The queries asked recently. Hashes are seeded, so that clients cannot choose
/// queries that take the places of others.
#[derive(Debug, Clone, Default)]
pub struct RecentQueries {
    seed: RandomState,
    /// Empty until the first question.
    places: Vec<u32>,
}

impl RecentQueries {
    /// Returns what they take in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        heap::list::<u32>(self.places.capacity())
    }

    /// Notes a query. Returns whether it was asked before.
    pub fn note(&mut self, query: Query<'_>) -> bool {
        if self.places.is_empty() {
            self.places = vec![0; PLACES];
        }
        let hash = self.seed.hash_one((query.selector, query.partition));
        let (place, mark) = (hash as usize % PLACES, (hash >> 32) as u32 | 1);
        std::mem::replace(&mut self.places[place], mark) == mark
    }
}
