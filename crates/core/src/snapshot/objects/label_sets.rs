//! The distinct label sets of a namespace's pods, and the number of pods with each that count on
//! each node. Pods of one workload share a label set, so a selector is matched against few of these
//! instead of against pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::interner::Interner;
use super::slot_counts::SlotCounts;
use super::slots::Slot;
use super::symbols::{InternedLabels, Symbol, Symbols};
use crate::matching::Selector;
use crate::snapshot::deadline::{Deadline, Stopped};

/// The number of label sets that are copied to change one of them.
const BLOCK: usize = 8;

/// The label sets with a pair of key and value. It serves to match many selectors at once.
#[derive(Debug, Default)]
pub struct Pairs(HashMap<(Symbol, Symbol), Vec<LabelSetId>>);

/// The number of a label set, valid in the table that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LabelSetId(u32);

/// A table of label sets, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct LabelSets {
    symbols: Symbols,
    sets: Interner<LabelSet, BLOCK>,
    /// Terminating pods that would count otherwise, by label set and node. There are
    /// few.
    terminating: Arc<HashMap<(LabelSetId, Slot), u32>>,
}

/// One label set, used by each pod that has it, counted or not.
#[derive(Debug, Clone)]
struct LabelSet {
    labels: InternedLabels,
    /// The number of pods with it that count, by the node that they count on.
    counted: SlotCounts,
}

impl LabelSets {
    /// The id of a label set, if a pod has it.
    pub fn find(&self, labels: &BTreeMap<String, String>) -> Option<LabelSetId> {
        let same = |set: &LabelSet| self.is_of(set, labels);
        self.sets.find(self.hash(labels), same).map(LabelSetId)
    }

    /// Returns whether a label set consists of these labels.
    pub fn has(&self, id: LabelSetId, labels: &BTreeMap<String, String>) -> bool {
        self.is_of(self.sets.get(id.0), labels)
    }

    fn is_of(&self, set: &LabelSet, labels: &BTreeMap<String, String>) -> bool {
        set.labels.len() == labels.len() && self.symbols.label_texts(&set.labels).eq(texts(labels))
    }

    fn hash(&self, labels: &BTreeMap<String, String>) -> u64 {
        self.sets.hash(labels)
    }

    /// Counts one more pod of a label set. Returns the set's id, and whether this is its first pod.
    pub fn acquire(&mut self, labels: &BTreeMap<String, String>) -> (LabelSetId, bool) {
        if let Some(id) = self.find(labels) {
            self.sets.use_again(id.0);
            return (id, false);
        }
        let set = LabelSet {
            labels: self.symbols.acquire_labels(labels),
            counted: SlotCounts::default(),
        };
        (LabelSetId(self.sets.insert(self.hash(labels), set)), true)
    }

    /// Removes a pod from a label set. Returns whether it was the last.
    pub fn release(&mut self, id: LabelSetId) -> bool {
        let last = self.sets.release(id.0);
        if let Some(set) = &last {
            self.symbols.release_labels(&set.labels);
        }
        last.is_some()
    }

    /// Counts a pod of a label set on a node.
    pub fn count(&mut self, id: LabelSetId, slot: Slot) {
        self.sets.get_mut(id.0).counted.add(slot);
    }

    /// Removes a counted pod.
    pub fn uncount(&mut self, id: LabelSetId, slot: Slot) {
        self.sets.get_mut(id.0).counted.remove(slot);
    }

    /// Counts a terminating pod of a label set on a node.
    pub fn note_terminating(&mut self, id: LabelSetId, slot: Slot) {
        let terminating = Arc::make_mut(&mut self.terminating);
        *terminating.entry((id, slot)).or_default() += 1;
    }

    /// Removes a terminating pod.
    pub fn forget_terminating(&mut self, id: LabelSetId, slot: Slot) {
        let terminating = Arc::make_mut(&mut self.terminating);
        let pods = terminating.get_mut(&(id, slot));
        let pods = pods.expect("what goes was counted");
        *pods -= 1;
        if *pods == 0 {
            terminating.remove(&(id, slot));
        }
    }

    /// The terminating pods that would count otherwise, by label set and node.
    pub fn terminating(&self) -> impl ExactSizeIterator<Item = (LabelSetId, Slot, u32)> {
        let all = self.terminating.iter();
        all.map(|((id, slot), pods)| (*id, *slot, *pods))
    }

    /// The label sets that a selector matches.
    pub fn matching<'s>(
        &'s self,
        selector: &Selector,
        deadline: &'s Deadline<'s>,
    ) -> impl Iterator<Item = Result<LabelSetId, Stopped>> + use<'s> {
        let selector = selector.map(|text| self.symbols.find(text).unwrap_or(Symbol::ABSENT));
        let each = 1 + selector.len();
        let matches = move |set: &LabelSet| {
            selector.matches(|key| self.symbols.label_value(&set.labels, *key))
        };
        let all = self.sets.iter();
        all.filter_map(move |(number, set)| match deadline.step(each) {
            Ok(()) => matches(set).then_some(Ok(LabelSetId(number))),
            Err(stopped) => Some(Err(stopped)),
        })
    }

    /// The pairs with the label sets that have them.
    pub fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::default();
        for (id, _) in self.in_use() {
            for pair in &*self.sets.get(id.0).labels {
                pairs.0.entry(*pair).or_default().push(id);
            }
        }
        pairs
    }

    /// As [`Self::matching`]. If the selector requires a pair, only the few sets with that pair are
    /// matched.
    pub fn matching_of(
        &self,
        selector: &Selector,
        pairs: &Pairs,
        deadline: &Deadline<'_>,
    ) -> Result<Vec<LabelSetId>, Stopped> {
        let Some((key, value)) = selector.required_pair() else {
            return self.matching(selector, deadline).collect();
        };
        let pair = self.symbols.find(key).zip(self.symbols.find(value));
        let having = pair.and_then(|pair| pairs.0.get(&pair));
        let mut matched = Vec::new();
        for id in having.into_iter().flatten() {
            deadline.step(1 + selector.len())?;
            if self.matches(*id, selector) {
                matched.push(*id);
            }
        }
        Ok(matched)
    }

    /// Returns whether a selector matches a label set.
    pub fn matches(&self, id: LabelSetId, selector: &Selector) -> bool {
        let labels = &self.sets.get(id.0).labels;
        let value = |key: &str| self.symbols.label_text(labels, key);
        selector.matches::<str>(|key| value(key).map(|value| self.symbols.text(*value)))
    }

    /// The label sets in use, each with the number of its pods.
    pub fn in_use(&self) -> impl Iterator<Item = (LabelSetId, u32)> {
        let all = self.sets.iter();
        all.map(|(number, _)| (LabelSetId(number), self.sets.uses(number)))
    }

    /// Returns the number of pods of a label set that count on a node.
    pub fn counted(&self, id: LabelSetId, slot: Slot) -> u32 {
        self.sets.get(id.0).counted.get(slot)
    }

    /// Returns the number of nodes on which pods of a label set count.
    pub fn nodes_of(&self, id: LabelSetId) -> usize {
        self.sets.get(id.0).counted.len()
    }

    /// Returns the number of pods of a label set on each node where one counts.
    pub fn counts(&self, id: LabelSetId) -> impl Iterator<Item = (Slot, u32)> {
        self.sets.get(id.0).counted.iter()
    }

    /// The labels of a set, ascending by key.
    pub fn texts(&self, id: LabelSetId) -> impl Iterator<Item = (&str, &str)> {
        self.symbols.label_texts(&self.sets.get(id.0).labels)
    }

    /// Returns the number of label sets.
    pub fn len(&self) -> usize {
        self.sets.count()
    }

    /// Returns whether there are no label sets.
    pub fn is_empty(&self) -> bool {
        self.sets.count() == 0
    }
}

impl LabelSetId {
    /// Returns the number as an index into an array with one element per label set.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(in crate::snapshot) fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 label sets"))
    }
}

/// Keys and values of labels.
fn texts(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().map(|(key, value)| (&**key, &**value))
}
