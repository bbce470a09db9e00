//! Queries to the counts, and the memory of recent ones: a view is worth keeping only if its query
//! comes again.

use std::hash::{BuildHasher, RandomState};

use super::partition;
use crate::account::heap;
use crate::matching::Selector;

/// The number of queries that are remembered, each by a hash in its own place. If another query
/// takes the place, the first one must come twice again.
const PLACES: usize = 4_096;

/// A query for the number of pods that match `selector` in each domain of a partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Selects the pods that are counted.
    pub selector: &'a Selector,
    /// The nodes that are counted in, and their domains.
    pub partition: &'a partition::Key,
}

/// The recent queries. The seed of the hashes is random, so that clients cannot choose queries that
/// displace others.
#[derive(Debug, Clone, Default)]
pub struct RecentQueries {
    seed: RandomState,
    /// The hashes; empty until the first query.
    places: Vec<u32>,
}

impl RecentQueries {
    /// Returns the bytes of the hashes in memory.
    pub fn memory_bytes(&self) -> usize {
        heap::list::<u32>(self.places.capacity())
    }

    /// Remembers a query. Returns whether it was asked before.
    pub fn note(&mut self, query: Query<'_>) -> bool {
        if self.places.is_empty() {
            self.places = vec![0; PLACES];
        }
        let hash = self.seed.hash_one((query.selector, query.partition));
        let (place, mark) = (hash as usize % PLACES, (hash >> 32) as u32 | 1);
        std::mem::replace(&mut self.places[place], mark) == mark
    }
}
