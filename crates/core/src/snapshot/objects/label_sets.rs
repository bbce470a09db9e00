//! The distinct label sets of a namespace's pods, and the number of pods with each that count on
//! each node. Pods of one workload share a label set, so a selector is matched against few of these
//! instead of against pods. Each distinct text of a label is kept once and named by a number.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::interner::Interner;
use super::slots::{Slot, SlotCounts};
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

    fn hash(&self, labels: &BTreeMap<String, String>) -> u32 {
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

    /// Counts a pod of a label set that comes to a node, leaves one, or both.
    pub fn recount(&mut self, id: LabelSetId, comes: Option<Slot>, goes: Option<Slot>) {
        let counted = &mut self.sets.get_mut(id.0).counted;
        if let Some(slot) = comes {
            counted.add(slot);
        }
        if let Some(slot) = goes {
            counted.remove(slot);
        }
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
}

/// Keys and values of labels.
fn texts(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().map(|(key, value)| (&**key, &**value))
}

/// The number of texts that are copied to change one of them.
const TEXT_BLOCK: usize = 64;

/// The number of an interned text, valid in the table that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

impl Symbol {
    /// Stands for a text that is not in the table, and so equals none of its
    /// symbols.
    pub const ABSENT: Self = Self(u32::MAX);

    /// Returns the number as an index into an array of `Symbols::bound` elements.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of interned texts, each dropped with its last use.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    texts: Interner<Arc<str>, TEXT_BLOCK>,
}

impl Symbols {
    /// The symbol of `text`, if it is in the table.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        let hash = self.texts.hash(text);
        self.texts.find(hash, |known| **known == *text).map(Symbol)
    }

    /// The symbol of `text`, used once more. Each call is paired with one of
    /// [`Self::release`].
    pub fn acquire(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.find(text) {
            self.texts.use_again(symbol.0);
            return symbol;
        }
        Symbol(self.texts.insert(self.texts.hash(text), text.into()))
    }

    /// Gives one use of a symbol back.
    pub fn release(&mut self, symbol: Symbol) {
        self.texts.release(symbol.0);
    }

    /// One more than the largest symbol's index.
    pub fn bound(&self) -> usize {
        self.texts.bound()
    }

    /// The text of a symbol of this table.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0)
    }
}

/// The labels that are read one after the other. More of them are searched by their order.
const FEW_LABELS: usize = 16;

/// Interned labels: pairs of key and value, ascending by key's text. Copies share them.
pub type InternedLabels = Arc<[(Symbol, Symbol)]>;

impl Symbols {
    /// Interns labels, which are ascending by key.
    pub fn acquire_labels<K: AsRef<str>>(
        &mut self,
        labels: impl IntoIterator<Item = (K, K)>,
    ) -> InternedLabels {
        let pair =
            |(key, value): (K, K)| (self.acquire(key.as_ref()), self.acquire(value.as_ref()));
        labels.into_iter().map(pair).collect()
    }

    /// Gives the uses of interned labels back.
    pub fn release_labels(&mut self, labels: &[(Symbol, Symbol)]) {
        for (key, value) in labels {
            self.release(*key);
            self.release(*value);
        }
    }

    /// The texts of interned labels.
    pub fn label_texts<'a>(
        &'a self,
        labels: &'a [(Symbol, Symbol)],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        labels
            .iter()
            .map(|(key, value)| (self.text(*key), self.text(*value)))
    }

    /// The value that interned labels have for a key.
    pub fn label_value<'l>(
        &self,
        labels: &'l [(Symbol, Symbol)],
        key: Symbol,
    ) -> Option<&'l Symbol> {
        if labels.len() <= FEW_LABELS || key == Symbol::ABSENT {
            let found = labels.iter().find(|(known, _)| *known == key);
            return found.map(|(_, value)| value);
        }
        self.label_text(labels, self.text(key))
    }

    /// The value that interned labels have for the text of a key.
    pub fn label_text<'l>(&self, labels: &'l [(Symbol, Symbol)], key: &str) -> Option<&'l Symbol> {
        let at = match labels.len() {
            0..=FEW_LABELS => labels
                .iter()
                .position(|(known, _)| self.text(*known) == key)?,
            _ => {
                let found = labels.binary_search_by(|(known, _)| self.text(*known).cmp(key));
                found.ok()?
            }
        };
        Some(&labels[at].1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_label_is_found_among_few_and_among_many() {
        for count in [0, 1, FEW_LABELS, FEW_LABELS + 1, 100] {
            let mut symbols = Symbols::default();
            // The order in which texts get their numbers is not that of the texts.
            let other = symbols.acquire("key-5x");
            let texts = (0..count).map(|i| (format!("key-{i}"), format!("value-{i}")));
            let texts: BTreeMap<String, String> = texts.collect();
            let labels = symbols.acquire_labels(&texts);
            for (key, value) in &texts {
                let found = symbols.label_text(&labels, key);
                assert_eq!(found.map(|it| symbols.text(*it)), Some(&**value), "{count}");
                let key = symbols.find(key).expect("it is interned");
                assert_eq!(symbols.label_value(&labels, key), found, "{count}");
            }
            for absent in [other, Symbol::ABSENT] {
                assert_eq!(symbols.label_value(&labels, absent), None, "{count}");
            }
            assert_eq!(symbols.label_text(&labels, "key"), None, "{count}");
        }
    }
}
