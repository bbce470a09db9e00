//! The selectors with views and the label sets that each matches, so that a change of a pod reaches
//! just the views that count it.

use std::sync::Arc;

use hashbrown::HashMap;
use slab::Slab;

use super::partition_in_use::PartitionId;
use super::view::View;
use crate::account::heap::{self, OnHeap};
use crate::matching::Selector;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::pair_index::PairIndex;
use crate::snapshot::objects::shrink;

/// Selectors with views.
#[derive(Debug, Clone, Default)]
pub struct WatchedSelectors {
    selectors: Slab<WatchedEntry>,
    by_selector: HashMap<Arc<Selector>, usize>,
    /// Finds the selectors that can match a label set.
    by_pair: PairIndex,
    /// The selectors that match each label set, by its number.
    watchers: Vec<Vec<Watcher>>,
    /// The number of views.
    count: usize,
    /// The bytes of selectors and views, without the matching label sets.
    bytes: usize,
    /// The number of label sets that each selector matches, summed up.
    matches: usize,
}

/// A selector with views.
#[derive(Debug, Clone)]
pub(super) struct WatchedEntry {
    selector: Arc<Selector>,
    /// The bytes of the selector, with all keys that find it.
    key_bytes: usize,
    /// The label sets that it matches, in no order.
    sets: Vec<LabelSetId>,
    views: Vec<Arc<View>>,
}

/// A copy of the views of a selector.
#[derive(Debug)]
pub struct SelectorViews {
    /// The selector.
    pub selector: Arc<Selector>,
    /// The label sets that it matches, in no order.
    pub sets: Vec<LabelSetId>,
    /// The selector's views.
    pub views: Vec<Arc<View>>,
}

/// The bytes for a match of a selector and a label set: a list of one has room for four.
const MATCH: usize = 4 * size_of::<Watcher>() + 2 * size_of::<LabelSetId>();

/// A selector that matches a label set.
#[derive(Debug, Clone, Copy)]
struct Watcher {
    selector: usize,
    /// The index of the label set among those that the selector matches.
    at: usize,
}

impl WatchedEntry {
    /// A copy with these of its views.
    fn with(&self, views: Vec<Arc<View>>) -> SelectorViews {
        SelectorViews {
            selector: Arc::clone(&self.selector),
            sets: self.sets.clone(),
            views,
        }
    }
}

/// Returns the bytes of a selector, with all keys that find it.
fn key_bytes(selector: &Selector) -> usize {
    size_of::<WatchedEntry>() * 3 / 2
        + heap::shared(size_of::<Selector>() + selector.heap_bytes())
        + heap::entry::<(Arc<Selector>, usize)>()
        + PairIndex::bytes_of(selector)
}

/// Returns the bytes of a view where it is kept.
fn view_bytes(view: &View) -> usize {
    view.memory_bytes() + 2 * size_of::<Arc<View>>()
}

impl WatchedSelectors {
    /// A view that is kept.
    pub fn find(&self, selector: &Selector, id: PartitionId) -> Option<&Arc<View>> {
        let watched = &self.selectors[*self.by_selector.get(selector)?];
        watched.views.iter().find(|view| view.partition() == id)
    }

    /// Keeps a view of a selector that matches these label sets. Returns the
    /// kept view, which is an earlier one if there is one.
    pub fn insert(
        &mut self,
        selector: &Selector,
        view: View,
        matched: Vec<LabelSetId>,
    ) -> Arc<View> {
        if let Some(view) = self.find(selector, view.partition()) {
            return Arc::clone(view);
        }
        let found = self.by_selector.get(selector).copied();
        let index = found.unwrap_or_else(|| self.watch(selector, matched));
        let view = Arc::new(view);
        self.bytes += view_bytes(&view);
        self.count += 1;
        self.selectors[index].views.push(Arc::clone(&view));
        view
    }

    fn watch(&mut self, selector: &Selector, matched: Vec<LabelSetId>) -> usize {
        let selector = Arc::new(selector.clone());
        let index = self.selectors.insert(WatchedEntry {
            key_bytes: key_bytes(&selector),
            selector: Arc::clone(&selector),
            sets: matched,
            views: Vec::new(),
        });
        for (at, set) in self.selectors[index].sets.iter().enumerate() {
            if self.watchers.len() <= set.index() {
                self.watchers.resize_with(set.index() + 1, Vec::new);
            }
            let watcher = Watcher {
                selector: index,
                at,
            };
            self.watchers[set.index()].push(watcher);
        }
        let watched = &self.selectors[index];
        self.bytes += watched.key_bytes;
        self.matches += watched.sets.len();
        self.by_pair.add(&selector, index);
        self.by_selector.insert(selector, index);
        index
    }

    /// Removes selectors. Reads the watchers of each label set once, however many of these
    /// selectors match it.
    fn unwatch(&mut self, all: &[usize]) -> Vec<WatchedEntry> {
        let taken = all.iter().map(|index| self.selectors.remove(*index));
        let taken: Vec<WatchedEntry> = taken.collect();
        let mut watched = vec![false; self.watchers.len()];
        for set in taken.iter().flat_map(|entry| &entry.sets) {
            watched[set.index()] = true;
        }
        let watched = self.watchers.iter_mut().zip(watched);
        for (watchers, _) in watched.filter(|(_, is_watched)| *is_watched) {
            watchers.retain(|watcher| self.selectors.contains(watcher.selector));
        }
        for (entry, index) in taken.iter().zip(all) {
            self.by_pair.remove(&entry.selector, *index);
            self.by_selector.remove(&entry.selector);
            self.matches -= entry.sets.len();
        }
        taken
    }

    /// Follows a label set that got its first pod.
    pub fn add_set(&mut self, set: LabelSetId, sets: &LabelSets) {
        if self.selectors.is_empty() {
            return;
        }
        if self.watchers.len() <= set.index() {
            self.watchers.resize_with(set.index() + 1, Vec::new);
        }
        let candidates = self.by_pair.candidates(sets.texts(set));
        for index in candidates {
            let watched = &mut self.selectors[index];
            if sets.matches(set, &watched.selector) {
                let watcher = Watcher {
                    selector: index,
                    at: watched.sets.len(),
                };
                self.watchers[set.index()].push(watcher);
                watched.sets.push(set);
                self.matches += 1;
            }
        }
    }

    /// Follows a label set that lost its last pod; `set_count` is one more than the largest
    /// remaining number.
    pub fn remove_set(&mut self, set: LabelSetId, set_count: usize) {
        let Some(watchers) = self.watchers.get_mut(set.index()) else {
            return;
        };
        self.matches -= watchers.len();
        for Watcher { selector, at } in std::mem::take(watchers) {
            let sets = &mut self.selectors[selector].sets;
            sets.swap_remove(at);
            shrink::shrink_list(sets);
            if let Some(moved) = sets.get(at) {
                let watchers = self.watchers[moved.index()].iter_mut();
                let mut watchers = watchers.filter(|watcher| watcher.selector == selector);
                watchers.next().expect("a matched label set is watched").at = at;
            }
        }
        self.watchers.truncate(set_count);
        shrink::shrink_list(&mut self.watchers);
    }

    /// Returns whether a view counts the pods of a label set.
    pub fn counts(&self, set: LabelSetId) -> bool {
        let watchers = self.watchers.get(set.index());
        watchers.is_some_and(|watchers| !watchers.is_empty())
    }

    /// Calls `change` for each view that counts the pods of a label set.
    pub fn for_each_of(&mut self, set: LabelSetId, mut change: impl FnMut(&mut Arc<View>)) {
        for watcher in self.watchers.get(set.index()).into_iter().flatten() {
            for view in &mut self.selectors[watcher.selector].views {
                change(view);
            }
        }
    }

    /// Changes or drops views, each given with the label sets that its selector matches. Forgets
    /// selectors without views, and measures the others again. Returns the dropped ones.
    pub(super) fn retain(
        &mut self,
        mut stays: impl FnMut(&[LabelSetId], &mut Arc<View>) -> bool,
    ) -> (Vec<Arc<View>>, Vec<WatchedEntry>) {
        let mut dropped = Vec::new();
        for (_, watched) in &mut self.selectors {
            let WatchedEntry { sets, views, .. } = watched;
            dropped.extend(views.extract_if(.., |view| !stays(sets, view)));
        }
        let unused = self.selectors.iter().filter(|(_, w)| w.views.is_empty());
        let unused: Vec<usize> = unused.map(|(index, _)| index).collect();
        let unused = self.unwatch(&unused);
        if self.selectors.is_empty() {
            self.watchers = Vec::new();
        }
        let keys = self.selectors.iter().map(|(_, watched)| watched.key_bytes);
        let views = self.iter().map(|(_, view)| view_bytes(view));
        self.bytes = keys.chain(views).sum();
        self.count = self.iter().count();
        (dropped, unused)
    }

    /// All views with their selectors.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Selector>, &Arc<View>)> {
        self.selectors.iter().flat_map(|(_, watched)| {
            watched
                .views
                .iter()
                .map(move |view| (&watched.selector, view))
        })
    }

    /// Copies of the views that `others` does not have, one by one.
    pub fn beyond(&self, others: &Self) -> Vec<SelectorViews> {
        let mut beyond = Vec::new();
        for (_, watched) in &self.selectors {
            let found = |view: &Arc<View>| others.find(&watched.selector, view.partition());
            let new = watched.views.iter().filter(|view| found(view).is_none());
            beyond.extend(new.map(|view| watched.with(vec![Arc::clone(view)])));
        }
        beyond
    }

    /// Returns how many views count the pods of a label set.
    pub fn watching(&self, set: LabelSetId) -> usize {
        let watchers = self.watchers.get(set.index()).into_iter().flatten();
        let views = watchers.map(|watcher| self.selectors[watcher.selector].views.len());
        views.sum()
    }

    /// Returns the number of label sets and of views of each selector.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let selectors = self.selectors.iter();
        selectors.map(|(_, watched)| (watched.sets.len(), watched.views.len()))
    }

    /// A copy of all views.
    pub fn copy(&self) -> Vec<SelectorViews> {
        let selectors = self.selectors.iter();
        selectors.map(|(_, w)| w.with(w.views.clone())).collect()
    }

    /// Returns whether there are no views.
    pub fn is_empty(&self) -> bool {
        self.selectors.is_empty()
    }

    /// Returns the number of views.
    pub fn view_count(&self) -> usize {
        self.count
    }

    /// Returns the bytes of selectors and views in memory. The counts of a view are measured when a
    /// view was last added or dropped, or nodes moved.
    pub fn memory_bytes(&self) -> usize {
        let watchers = heap::list::<Vec<Watcher>>(self.watchers.capacity());
        self.bytes + watchers + self.matches * MATCH
    }

    /// Returns the bytes that a view would take if it were kept here.
    pub fn cost(&self, selector: &Selector, view: &View, matched: &[LabelSetId]) -> usize {
        let view = view_bytes(view);
        match self.by_selector.contains_key(selector) {
            true => view,
            false => view + key_bytes(selector) + matched.len() * MATCH,
        }
    }
}
