//! The terms about other pods that pods on nodes have, of all namespaces. Pods of a workload share
//! their terms, so each distinct one is kept once, with the number of pods that have it on each
//! node. A decision reads only those that can match: an index finds them by a pair of labels.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::hash_trie::{HashTrie, Numbered};
use super::interner::Interner;
use super::slots::{Slot, SlotCounts};
use crate::matching::{PodTerm, Selector};

/// The number of terms that are copied to change one of them.
const BLOCK: usize = 4;

/// The labels of a namespace without an object.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// A table of the terms of pods that are on nodes, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct TermTable {
    terms: Interner<HeldTerm, BLOCK>,
    index: PairIndex,
}

/// A term of pods.
#[derive(Debug, Clone)]
pub struct HeldTerm {
    key: Arc<TermKey>,
    /// The number of pods with the term, by node.
    counted: SlotCounts,
}

/// The key by which equal terms of several pods are one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TermKey {
    term: PodTerm,
    /// The namespace of the pods, if the term covers only that one; else empty.
    own: Box<str>,
}

impl HeldTerm {
    /// The term.
    pub fn term(&self) -> &PodTerm {
        &self.key.term
    }

    /// The namespace of its pods, if the term covers only that one; else empty.
    pub fn own(&self) -> &str {
        &self.key.own
    }

    /// The nodes with pods that have the term, and their numbers.
    pub fn counts(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.counted.iter()
    }

    /// Returns the number of nodes with pods that have the term.
    pub fn node_count(&self) -> usize {
        self.counted.len()
    }
}

impl TermTable {
    /// Counts a pod of a namespace with these terms that comes to a node or leaves it.
    pub fn shift(&mut self, slot: Slot, terms: &[PodTerm], namespace: &str, comes: bool) {
        for term in terms {
            let own = match term.is_about_own() {
                true => namespace,
                false => "",
            };
            match (self.find(term, own), comes) {
                (Some(number), true) => {
                    self.terms.use_again(number);
                    self.terms.get_mut(number).counted.add(slot);
                }
                (None, true) => self.add(term, own, slot),
                (Some(number), false) => self.remove(number, slot),
                (None, false) => unreachable!("the term of a pod that goes was counted"),
            }
        }
    }

    /// The terms that cover a pod with these labels in a namespace. The namespace's own labels are
    /// `None` where it has no object.
    pub fn about<'t>(
        &'t self,
        labels: &'t BTreeMap<String, String>,
        namespace: &'t str,
        namespace_labels: Option<&'t BTreeMap<String, String>>,
    ) -> impl Iterator<Item = &'t HeldTerm> {
        let pairs = labels.iter().map(|(key, value)| (&**key, &**value));
        let candidates = self.index.candidates(pairs).into_iter();
        let candidates = candidates.map(|number| self.terms.get(number));
        let namespace_labels = namespace_labels.unwrap_or(&NO_LABELS);
        candidates.filter(move |held| {
            let TermKey { term, own } = &*held.key;
            term.is_about(own, namespace, Some(namespace_labels))
                && term.selector.matches_labels(labels)
        })
    }

    /// Returns the number of terms that may match a pod with these labels.
    pub fn candidates(&self, labels: &BTreeMap<String, String>) -> usize {
        let pairs = labels.iter().map(|(key, value)| (&**key, &**value));
        self.index.candidates(pairs).len()
    }

    /// All terms, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &HeldTerm> {
        self.terms.iter().map(|(_, held)| held)
    }

    /// Returns the number of terms.
    pub fn len(&self) -> usize {
        self.terms.count()
    }

    /// Returns whether there is no term.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, term: &PodTerm, own: &str) -> Option<u32> {
        let same = |held: &HeldTerm| held.key.term == *term && *held.key.own == *own;
        self.terms.find(self.terms.hash((term, own)), same)
    }

    /// Adds the term of a first pod, which is on a node.
    fn add(&mut self, term: &PodTerm, own: &str, slot: Slot) {
        let key = TermKey {
            term: term.clone(),
            own: own.into(),
        };
        let mut counted = SlotCounts::default();
        counted.add(slot);
        let held = HeldTerm {
            key: Arc::new(key),
            counted,
        };
        let number = self.terms.insert(self.terms.hash((term, own)), held);
        self.index.add(&term.selector, number);
    }

    /// Removes the term of a pod that leaves a node.
    fn remove(&mut self, number: u32, slot: Slot) {
        self.terms.get_mut(number).counted.remove(slot);
        if let Some(gone) = self.terms.release(number) {
            self.index.remove(&gone.key.term.selector, number);
        }
    }
}

/// The numbers of selectors, by a pair of labels that they require, or by none.
#[derive(Debug, Clone, Default)]
pub struct PairIndex {
    numbers: HashTrie<Numbered>,
    hasher: DefaultHashBuilder,
}

impl PairIndex {
    fn hash(&self, pair: Option<(&str, &str)>) -> u32 {
        self.hasher.hash_one(pair) as u32
    }

    /// Adds a selector with its number.
    pub fn add(&mut self, selector: &Selector, number: u32) {
        let hash = self.hash(selector.required_pair());
        self.numbers.insert(Numbered { hash, number });
    }

    /// Removes a selector.
    pub fn remove(&mut self, selector: &Selector, number: u32) {
        let hash = self.hash(selector.required_pair());
        let it = Numbered { hash, number };
        let removed = self.numbers.remove(hash, |other| *other == it);
        debug_assert!(removed.is_some(), "the selector is there");
    }

    /// The selectors that may match a label set with these pairs, ascending.
    pub fn candidates<'a>(&self, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u32> {
        let hashes = pairs.map(Some).chain([None]).map(|pair| self.hash(pair));
        let found = hashes.flat_map(|hash| self.numbers.all(hash));
        let mut found: Vec<u32> = found.map(|it| it.number).collect();
        found.sort_unstable();
        // Two pairs may have one hash.
        found.dedup();
        found
    }
}
