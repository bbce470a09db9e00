//! The terms about other pods that pods on nodes have, of all namespaces. Pods of a workload share
//! their terms, so each distinct one is kept once, with the number of pods that have it on each
//! node. A decision reads only those that can match.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::interner::Interner;
use super::pair_index::PairIndex;
use super::slot_counts::SlotCounts;
use super::slots::Slot;
use crate::matching::PodTerm;

/// The number of terms that are copied to change one of them.
const BLOCK: usize = 4;

/// The labels of a namespace without an object.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// The terms of a pod about other pods.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedTerms {
    /// The terms.
    pub terms: Arc<[PodTerm]>,
    /// The namespace of the pod.
    pub namespace: Arc<str>,
}

/// A table of the terms of pods that are on nodes, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct TermTable {
    terms: Interner<HeldTerm, BLOCK>,
    index: Arc<PairIndex>,
}

/// A term of pods.
#[derive(Debug, Clone, Default)]
pub struct HeldTerm {
    /// The key of the term; `None` where the number is free.
    key: Option<Arc<TermKey>>,
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
        &self.key().term
    }

    /// The namespace of its pods, if the term covers only that one; else empty.
    pub fn own(&self) -> &str {
        &self.key().own
    }

    /// The nodes with pods that have the term, and their numbers.
    pub fn counts(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.counted.iter()
    }

    /// Returns the number of nodes with pods that have the term.
    pub fn node_count(&self) -> usize {
        self.counted.len()
    }

    fn key(&self) -> &TermKey {
        let key = self.key.as_deref();
        key.expect("only terms in use are asked for")
    }
}

impl TermTable {
    /// Counts a pod with these terms that comes to a node or leaves it.
    pub fn shift(&mut self, slot: Slot, pod: &OwnedTerms, comes: bool) {
        for term in &*pod.terms {
            let own = match term.is_about_own() {
                true => &*pod.namespace,
                false => "",
            };
            match (self.find(term, own), comes) {
                (Some(number), true) => self.count(number, slot),
                (None, true) => {
                    let number = self.add(term, own);
                    self.count(number, slot);
                }
                (Some(number), false) => self.uncount(number, slot),
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
        let candidates = candidates.map(|number| self.terms.get(number as u32));
        let namespace_labels = namespace_labels.unwrap_or(&NO_LABELS);
        candidates.filter(move |held| {
            let TermKey { term, own } = held.key();
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
        let all = self.terms.iter().map(|(_, held)| held);
        all.filter(|held| held.key.is_some())
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
        let hash = self.terms.hasher().hash_one((term, own));
        let same = |number| {
            let key = self.terms.get(number).key();
            key.term == *term && *key.own == *own
        };
        self.terms.find(hash, same)
    }

    fn add(&mut self, term: &PodTerm, own: &str) -> u32 {
        let key = TermKey {
            term: term.clone(),
            own: own.into(),
        };
        let held = HeldTerm {
            key: Some(Arc::new(key)),
            counted: SlotCounts::default(),
        };
        let number = self.terms.insert(held, hash_of);
        Arc::make_mut(&mut self.index).add(&term.selector, number as usize);
        number
    }

    fn count(&mut self, number: u32, slot: Slot) {
        self.terms.get_mut(number).counted.add(slot);
    }

    fn uncount(&mut self, number: u32, slot: Slot) {
        let counted = &mut self.terms.get_mut(number).counted;
        counted.remove(slot);
        if counted.len() == 0 {
            let key = self.terms.get(number).key.clone();
            let key = key.expect("a counted term is in use");
            Arc::make_mut(&mut self.index).remove(&key.term.selector, number as usize);
            let is_used = |held: &HeldTerm| held.key.is_some();
            self.terms.remove(number, is_used, hash_of);
        }
    }
}

fn hash_of(hasher: &DefaultHashBuilder, held: &HeldTerm) -> u64 {
    // A term that is being removed still has its key.
    let key = held.key();
    hasher.hash_one((&key.term, &*key.own))
}
