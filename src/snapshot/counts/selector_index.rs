//! Finds the selectors with views that can match a label set.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::account::heap;
use crate::matching::Selector;
use crate::snapshot::objects::pair_index::PairIndex;

/// Finds selectors by themselves, and by the labels that they require.
#[derive(Debug, Clone, Default)]
pub struct SelectorIndex {
    by_selector: HashMap<Arc<Selector>, usize>,
    by_pair: PairIndex,
}

impl SelectorIndex {
    /// The number of a selector.
    pub fn find(&self, selector: &Selector) -> Option<usize> {
        self.by_selector.get(selector).copied()
    }

    /// Adds a selector with its number.
    pub fn add(&mut self, selector: Arc<Selector>, number: usize) {
        self.by_pair.add(&selector, number);
        self.by_selector.insert(selector, number);
    }

    /// Removes a selector.
    pub fn remove(&mut self, selector: &Selector, number: usize) {
        self.by_pair.remove(selector, number);
        self.by_selector.remove(selector);
    }

    /// The selectors that may match a label set with these pairs.
    pub fn candidates<'a>(&self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<usize> {
        self.by_pair.candidates(pairs)
    }

    /// Returns the bytes of a selector's entries, without the selector.
    pub fn bytes_of(selector: &Selector) -> usize {
        heap::entry::<(Arc<Selector>, usize)>() + PairIndex::bytes_of(selector)
    }
}
