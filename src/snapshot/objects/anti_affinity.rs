//! The required anti-affinity terms of the pods that are on nodes, of all namespaces.
//! Pods of a workload share their terms, so each distinct one is kept once, with how
//! many pods have it on each node. A decision looks only at those that can match.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::interner::Interner;
use super::pair_index::PairIndex;
use super::shrink;
use super::slots::Slot;
use crate::account::heap;
use crate::matching::PodTerm;

/// How many terms are copied to change one of them.
const BLOCK: usize = 4;

/// The labels of a namespace without an object.
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// Terms by which a pod keeps others away.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepsAway {
    /// The terms.
    pub terms: Arc<[PodTerm]>,
    /// The namespace of the pod.
    pub namespace: Arc<str>,
}

/// A table of the terms of pods that are on nodes, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct AntiAffinityTable {
    terms: Interner<HeldTerm, BLOCK>,
    index: Arc<PairIndex>,
    /// What the terms have on the heap, and what finding them takes.
    term_bytes: usize,
    /// What their counts have on the heap.
    count_bytes: usize,
}

/// A term that pods have.
#[derive(Debug, Clone, Default)]
pub struct HeldTerm {
    /// `None` where the number is free.
    key: Option<Arc<TermKey>>,
    /// By node, how many pods on it have the term.
    counted: HashMap<Slot, u32>,
}

/// What makes terms of several pods one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TermKey {
    term: PodTerm,
    /// The namespace of the pods, where the term is about that alone; else empty.
    own: Box<str>,
}

impl HeldTerm {
    /// The term.
    pub fn term(&self) -> &PodTerm {
        &self.key().term
    }

    /// The namespace of its pods, where it is about that alone; else empty.
    pub fn own(&self) -> &str {
        &self.key().own
    }

    /// The nodes with pods that have it, and how many.
    pub fn counts(&self) -> impl ExactSizeIterator<Item = (Slot, u32)> {
        self.counted.iter().map(|(slot, pods)| (*slot, *pods))
    }

    fn key(&self) -> &TermKey {
        let key = self.key.as_deref();
        key.expect("only terms in use are asked for")
    }
}

impl TermKey {
    fn bytes(&self) -> usize {
        heap::shared(size_of::<Self>())
            + self.term.heap_bytes()
            + heap::block(self.own.len())
            + PairIndex::bytes_of(&self.term.selector)
    }
}

impl AntiAffinityTable {
    /// A pod with these terms comes to a node, or goes from it.
    pub fn shift(&mut self, slot: Slot, pod: &KeepsAway, comes: bool) {
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

    /// The terms by which pods on nodes keep a pod away that has these labels and is
    /// in a namespace, whose own labels are `None` where it has no object.
    pub fn against<'t>(
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

    /// Returns how many terms may match a pod with these labels.
    pub fn candidates(&self, labels: &BTreeMap<String, String>) -> usize {
        let pairs = labels.iter().map(|(key, value)| (&**key, &**value));
        self.index.candidates(pairs).len()
    }

    /// All terms, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &HeldTerm> {
        let all = self.terms.iter().map(|(_, held)| held);
        all.filter(|held| held.key.is_some())
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.terms.count() == 0
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
        self.term_bytes += key.bytes();
        let held = HeldTerm {
            key: Some(Arc::new(key)),
            counted: HashMap::default(),
        };
        let number = self.terms.insert(held, hash_of);
        Arc::make_mut(&mut self.index).add(&term.selector, number as usize);
        number
    }

    fn count(&mut self, number: u32, slot: Slot) {
        let counted = &mut self.terms.get_mut(number).counted;
        let room = heap::block(counted.allocation_size());
        *counted.entry(slot).or_default() += 1;
        self.count_bytes = self.count_bytes - room + heap::block(counted.allocation_size());
    }

    fn uncount(&mut self, number: u32, slot: Slot) {
        let counted = &mut self.terms.get_mut(number).counted;
        let room = heap::block(counted.allocation_size());
        let pods = counted.get_mut(&slot).expect("a pod that goes was counted");
        *pods -= 1;
        if *pods == 0 {
            counted.remove(&slot);
            if let Some(capacity) = shrink::shrunk(counted.len(), counted.capacity()) {
                counted.shrink_to(capacity);
            }
        }
        let (is_empty, left) = (counted.is_empty(), heap::block(counted.allocation_size()));
        self.count_bytes = self.count_bytes - room + left;
        if is_empty {
            let key = self.terms.get(number).key.clone();
            let key = key.expect("a counted term is in use");
            Arc::make_mut(&mut self.index).remove(&key.term.selector, number as usize);
            let is_used = |held: &HeldTerm| held.key.is_some();
            self.terms.remove(number, is_used, hash_of);
            self.count_bytes -= left;
            self.term_bytes -= key.bytes();
        }
    }

    /// As [`Self::memory_bytes`], with every term measured anew.
    pub fn measured_bytes(&self) -> usize {
        let of = |held: &HeldTerm| held.key().bytes() + heap::block(held.counted.allocation_size());
        let kept = self.term_bytes + self.count_bytes;
        self.memory_bytes() - kept + self.iter().map(of).sum::<usize>()
    }

    /// Returns what it takes in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.terms.memory_bytes() + self.term_bytes + self.count_bytes
    }
}

fn hash_of(hasher: &DefaultHashBuilder, held: &HeldTerm) -> u64 {
    // One that is being removed has its key still.
    let key = held.key();
    hasher.hash_one((&key.term, &*key.own))
}
