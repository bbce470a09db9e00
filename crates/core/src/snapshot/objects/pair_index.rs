//! Finds, among many selectors, those that can match a label set.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::matching::Selector;

/// The numbers of selectors, by a pair of labels that they require.
#[derive(Debug, Clone, Default)]
pub struct PairIndex {
    /// Selectors by a pair that they require; each has one key here.
    by_pair: HashMap<(Box<str>, Box<str>), BTreeSet<usize>>,
    /// Selectors that require no pair.
    unpaired: BTreeSet<usize>,
}

impl PairIndex {
    /// Adds a selector with its number.
    pub fn add(&mut self, selector: &Selector, number: usize) {
        match selector.required_pair() {
            Some((key, value)) => {
                let pair = (key.into(), value.into());
                self.by_pair.entry(pair).or_default().insert(number);
            }
            None => {
                self.unpaired.insert(number);
            }
        }
    }

    /// Removes a selector.
    pub fn remove(&mut self, selector: &Selector, number: usize) {
        match selector.required_pair() {
            Some((key, value)) => {
                let pair = (key.into(), value.into());
                let of_pair = self.by_pair.get_mut(&pair);
                let of_pair = of_pair.expect("a paired selector is there");
                of_pair.remove(&number);
                if of_pair.is_empty() {
                    self.by_pair.remove(&pair);
                }
            }
            None => {
                self.unpaired.remove(&number);
            }
        }
    }

    /// The selectors that may match a label set with these pairs.
    pub fn candidates<'a>(&self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<usize> {
        let paired = pairs.filter_map(|pair| self.by_pair.get(&PairRef(pair)));
        paired.flatten().chain(&self.unpaired).copied().collect()
    }
}

/// A borrowed pair that finds an owned one.
#[derive(Hash)]
struct PairRef<'a>((&'a str, &'a str));

impl hashbrown::Equivalent<(Box<str>, Box<str>)> for PairRef<'_> {
    fn equivalent(&self, key: &(Box<str>, Box<str>)) -> bool {
        self.0 == (&*key.0, &*key.1)
    }
}
