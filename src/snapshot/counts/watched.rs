//! The selectors that have views: which label sets each matches, so that a
//! change of a pod reaches just the views that count it.

use std::sync::Arc;

use slab::Slab;

use super::partition_in_use::PartitionId;
use super::selector_index::SelectorIndex;
use super::view::View;
use crate::account::heap;
use crate::matching::Selector;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::shrink;

/// Selectors with views.
#[derive(Debug, Clone, Default)]
pub struct WatchedSelectors {
    selectors: Slab<WatchedEntry>,
    index: SelectorIndex,
    /// By label set: the selectors that match it.
    watchers: Vec<Vec<Watcher>>,
    /// How many views there are.
    count: usize,
    /// What selectors and views take, without `watchers`.
    bytes: usize,
    /// What the lists of `watchers` take.
    watcher_bytes: usize,
}

/// A selector with views.
#[derive(Debug, Clone)]
pub(super) struct WatchedEntry {
    selector: Arc<Selector>,
    /// What the selector takes, with all that it is found by.
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
    /// Its views.
    pub views: Vec<Arc<View>>,
}

/// A selector that matches a label set.
#[derive(Debug, Clone, Copy)]
struct Watcher {
    /// The selector.
    selector: usize,
    /// Where the label set is among those that the selector matches.
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

    /// Returns what it takes in memory with its views, in bytes.
    fn memory_bytes(&self) -> usize {
        let views = self.views.iter().map(|view| view.memory_bytes());
        let sets = heap::list::<LabelSetId>(self.sets.capacity());
        self.key_bytes + views.sum::<usize>() + sets + view_list(&self.views)
    }
}

/// Returns what a selector takes, with all that it is found by.
fn key_bytes(selector: &Selector) -> usize {
    let shared = heap::shared(size_of::<Selector>() + selector.heap_bytes());
    size_of::<WatchedEntry>() * 3 / 2 + shared + SelectorIndex::bytes_of(selector)
}

fn view_list(views: &Vec<Arc<View>>) -> usize {
    heap::list::<Arc<View>>(views.capacity())
}

/// Adds to a list whose room is counted in `bytes`.
fn push<T>(list: &mut Vec<T>, item: T, bytes: &mut usize) {
    let room = list.capacity();
    list.push(item);
    if list.capacity() != room {
        *bytes -= heap::list::<T>(room);
        *bytes += heap::list::<T>(list.capacity());
    }
}

impl WatchedSelectors {
    /// A view that is kept.
    pub fn find(&self, selector: &Selector, id: PartitionId) -> Option<&Arc<View>> {
        let watched = &self.selectors[self.index.find(selector)?];
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
        let found = self.index.find(selector);
        let index = found.unwrap_or_else(|| self.watch(selector, matched));
        let view = Arc::new(view);
        self.bytes += view.memory_bytes();
        self.count += 1;
        push(
            &mut self.selectors[index].views,
            Arc::clone(&view),
            &mut self.bytes,
        );
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
            let watchers = &mut self.watchers[set.index()];
            push(watchers, watcher, &mut self.watcher_bytes);
        }
        self.bytes += self.selectors[index].memory_bytes();
        self.index.add(selector, index);
        index
    }

    /// Takes selectors out. Looks at the watchers of each label set once, however
    /// many of these selectors match it.
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
            self.index.remove(&entry.selector, *index);
        }
        taken
    }

    /// Follows a label set that a first pod has.
    pub fn add_set(&mut self, set: LabelSetId, sets: &LabelSets) {
        if self.selectors.is_empty() {
            return;
        }
        if self.watchers.len() <= set.index() {
            self.watchers.resize_with(set.index() + 1, Vec::new);
        }
        let candidates = self.index.candidates(sets.texts(set));
        for index in candidates {
            let watched = &mut self.selectors[index];
            if sets.matches(set, &watched.selector) {
                let watcher = Watcher {
                    selector: index,
                    at: watched.sets.len(),
                };
                let watchers = &mut self.watchers[set.index()];
                push(watchers, watcher, &mut self.watcher_bytes);
                push(&mut watched.sets, set, &mut self.bytes);
            }
        }
    }

    /// Follows a label set that no pod has any more; `set_count` is one more
    /// than the largest number of one that is left.
    pub fn remove_set(&mut self, set: LabelSetId, set_count: usize) {
        let Some(watchers) = self.watchers.get_mut(set.index()) else {
            return;
        };
        self.watcher_bytes -= heap::list::<Watcher>(watchers.capacity());
        for Watcher { selector, at } in std::mem::take(watchers) {
            let sets = &mut self.selectors[selector].sets;
            sets.swap_remove(at);
            self.bytes -= heap::list::<LabelSetId>(sets.capacity());
            shrink::shrink_list(sets);
            self.bytes += heap::list::<LabelSetId>(sets.capacity());
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

    /// Changes or drops views, each given with the label sets that its selector
    /// matches. Forgets selectors without views, and measures the others again.
    /// Returns what was dropped.
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
            self.watcher_bytes = 0;
        }
        self.bytes = self.measured_selectors();
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

    /// A copy that follows changes on its own.
    pub fn fork(&self) -> Self {
        let mut fork = self.clone();
        // Its lists have no room to spare.
        fork.bytes = fork.measured_selectors();
        fork.watcher_bytes = fork.measured_watchers();
        fork
    }

    /// Returns what selectors and views take.
    fn measured_selectors(&self) -> usize {
        self.selectors.iter().map(|(_, w)| w.memory_bytes()).sum()
    }

    /// Returns what the lists of `watchers` take.
    fn measured_watchers(&self) -> usize {
        let lists = self.watchers.iter();
        lists
            .map(|list| heap::list::<Watcher>(list.capacity()))
            .sum()
    }

    /// Copies of the views that `others` have not got, each alone.
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

    /// Returns how many label sets and how many views each selector has.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let selectors = self.selectors.iter();
        selectors.map(|(_, watched)| (watched.sets.len(), watched.views.len()))
    }

    /// A copy of all of them.
    pub fn copy(&self) -> Vec<SelectorViews> {
        let selectors = self.selectors.iter();
        selectors.map(|(_, w)| w.with(w.views.clone())).collect()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.selectors.is_empty()
    }

    /// Returns how many views there are.
    pub fn view_count(&self) -> usize {
        self.count
    }

    /// The same as [`Self::memory_bytes`], measured again, except for the
    /// counts of views.
    pub fn measured_bytes(&self) -> usize {
        let kept = self.bytes + self.watcher_bytes;
        self.memory_bytes() - kept + self.measured_selectors() + self.measured_watchers()
    }

    /// Returns what they take in memory, in bytes. The counts of views are as large as
    /// when one was last added or dropped, or nodes moved.
    pub fn memory_bytes(&self) -> usize {
        let watchers = heap::list::<Vec<Watcher>>(self.watchers.capacity());
        self.bytes + watchers + self.watcher_bytes
    }

    /// Returns what a view would take that is kept here, in bytes.
    pub fn cost(&self, selector: &Selector, view: &View, matched: &Vec<LabelSetId>) -> usize {
        let view = view.memory_bytes() + size_of::<Arc<View>>();
        if self.index.find(selector).is_some() {
            return view;
        }
        let watcher = heap::list::<Watcher>(1) + size_of::<Vec<Watcher>>();
        let sets = heap::list::<LabelSetId>(matched.capacity()) + matched.len() * watcher;
        view + key_bytes(selector) + sets
    }
}
