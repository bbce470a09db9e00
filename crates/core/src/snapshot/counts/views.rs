//! The cached views of a namespace. A change of a pod reaches just the views that count it.
//!
//! A view belongs to the members that a partition had: once nodes move, the partition has another
//! number, and its views are counted again when next asked. Which views are cached changes no answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::partition::{DomainId, Partition, PartitionId, PartitionInUse};
use super::partitions::{LastUse, Upkeep, unused_for_longest};
use crate::matching::Selector;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::blocks::Blocks;
use crate::snapshot::objects::interner::Interner;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::pod_terms::PairIndex;
use crate::snapshot::objects::slots::Slot;

/// The most views of a namespace.
const MAX_VIEWS: usize = 256;

/// The number of views that make room together, because finding those unused for longest reads all.
const DROPPED_TOGETHER: usize = MAX_VIEWS / 8;

/// The number of views that are copied to change one of them.
const VIEW_BLOCK: usize = 16;

/// The number of label sets whose watchers are copied to change one of them.
const WATCHER_BLOCK: usize = 16;

/// The views of a namespace. Copies share them until they change.
#[derive(Debug, Clone, Default)]
pub struct Views {
    views: Interner<CachedView, VIEW_BLOCK>,
    /// Finds the views that can count a label set.
    by_pair: PairIndex,
    /// The numbers of the views that count each label set, by its number.
    watchers: Blocks<Vec<u32>, WATCHER_BLOCK>,
}

/// A view, as its namespace has it at one revision.
#[derive(Debug, Clone)]
pub struct CachedView {
    query: Arc<ViewQuery>,
    view: Arc<View>,
}

/// The query that a view answers, shared by all revisions of the view.
#[derive(Debug)]
pub struct ViewQuery {
    selector: Selector,
    partition: Arc<Partition>,
    last_use: LastUse,
    upkeep: Arc<Upkeep>,
}

impl ViewQuery {
    /// The query of a view; `None` if there is no room for it.
    pub fn new(
        selector: &Selector,
        in_use: &PartitionInUse,
        upkeep: &Arc<Upkeep>,
    ) -> Option<Arc<Self>> {
        if !upkeep.has_view_room() {
            return None;
        }
        upkeep.note_view();
        Some(Arc::new(Self {
            selector: selector.clone(),
            partition: Arc::clone(&in_use.partition),
            last_use: LastUse::now(),
            upkeep: Arc::clone(upkeep),
        }))
    }

    fn is_of(&self, selector: &Selector, id: PartitionId) -> bool {
        self.partition.id() == id && self.selector == *selector
    }
}

impl Drop for ViewQuery {
    fn drop(&mut self) {
        self.upkeep.forget_view();
    }
}

impl CachedView {
    /// Selects the pods that the view counts.
    pub fn selector(&self) -> &Selector {
        &self.query.selector
    }

    /// The number of the partition.
    pub fn partition(&self) -> PartitionId {
        self.query.partition.id()
    }

    /// The counts.
    pub fn view(&self) -> &View {
        &self.view
    }
}

impl Views {
    /// The view of a query, used once more.
    pub fn find(&self, selector: &Selector, id: PartitionId) -> Option<&Arc<View>> {
        let cached = self.views.get(self.number(selector, id)?);
        cached.query.last_use.touch();
        Some(&cached.view)
    }

    fn number(&self, selector: &Selector, id: PartitionId) -> Option<u32> {
        let same = |cached: &CachedView| cached.query.is_of(selector, id);
        self.views.find(self.views.hash(selector), same)
    }

    /// Adds a view of these label sets. Former views of the same query go, and those unused for
    /// longest if there are too many.
    pub fn insert(&mut self, query: &Arc<ViewQuery>, view: &Arc<View>, sets: &[LabelSetId]) {
        if self.number(&query.selector, query.partition.id()).is_some() {
            return;
        }
        let hash = self.views.hash(&query.selector);
        let is_former = |cached: &CachedView| {
            let other = &cached.query;
            other.selector == query.selector && other.partition.key() == query.partition.key()
        };
        while let Some(number) = self.views.find(hash, is_former) {
            self.drop_all(&[(number, Arc::clone(&self.views.get(number).query))]);
        }
        if self.views.count() >= MAX_VIEWS {
            self.drop_unused(DROPPED_TOGETHER);
        }
        let cached = CachedView {
            query: Arc::clone(query),
            view: Arc::clone(view),
        };
        let number = self.views.insert(hash, cached);
        self.by_pair.add(&query.selector, number);
        for set in sets {
            self.watch(*set, number);
        }
    }

    fn watch(&mut self, set: LabelSetId, number: u32) {
        while self.watchers.len() <= set.index() {
            self.watchers.push(Vec::new());
        }
        self.watchers.get_mut(set.index()).push(number);
    }

    /// Follows a label set that got its first pod.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn add_set(
        &mut self,
        set: LabelSetId,
        sets: &LabelSets,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        for number in self.by_pair.candidates(sets.texts(set)) {
            let cached = self.views.get(number);
            deadline.step(1 + cached.query.selector.len())?;
            if sets.matches(set, &cached.query.selector) {
                self.watch(set, number);
            }
        }
        Ok(())
    }

    /// Follows a label set that lost its last pod.
    pub fn remove_set(&mut self, set: LabelSetId) {
        if self.counts(set) {
            self.watchers.get_mut(set.index()).clear();
        }
        while self.watchers.last().is_some_and(Vec::is_empty) {
            self.watchers.pop();
        }
    }

    /// Returns whether a view counts the pods of a label set.
    pub fn counts(&self, set: LabelSetId) -> bool {
        set.index() < self.watchers.len() && !self.watchers[set.index()].is_empty()
    }

    /// Follows a pod that comes to a node, leaves one, or both.
    pub fn recount(&mut self, set: LabelSetId, comes: Option<Slot>, goes: Option<Slot>) {
        for number in &self.watchers[set.index()] {
            let partition = &self.views.get(*number).query.partition;
            let domain = |slot: Option<Slot>| {
                let domain = partition.member(slot?);
                domain.is_some().then_some(domain)
            };
            let (to, from) = (domain(comes), domain(goes));
            if to == from {
                continue;
            }
            let view = Arc::make_mut(&mut self.views.get_mut(*number).view);
            if let Some(domain) = to {
                view.add(domain);
            }
            if let Some(domain) = from {
                view.remove(domain);
            }
        }
    }

    /// Drops the views that were last used before a time, and those whose partition is not in use.
    pub fn drop_idle(&mut self, since: u64, is_in_use: impl Fn(PartitionId) -> bool) {
        self.retain(|query| query.last_use.time() >= since && is_in_use(query.partition.id()));
    }

    /// Drops this many views: those unused for longest.
    pub fn drop_unused(&mut self, count: usize) {
        let times = self.views.iter();
        let times = times.map(|(_, cached)| cached.query.last_use.time());
        let mut goes = unused_for_longest(times.collect(), count);
        self.retain(|query| !goes(query.last_use.time()));
    }

    fn retain(&mut self, mut stays: impl FnMut(&ViewQuery) -> bool) {
        let goes = |(number, cached): (u32, &CachedView)| {
            let query = &cached.query;
            (!stays(query)).then(|| (number, Arc::clone(query)))
        };
        let gone: Vec<(u32, Arc<ViewQuery>)> = self.views.iter().filter_map(goes).collect();
        self.drop_all(&gone);
    }

    /// Drops views, which are in the order of their numbers.
    fn drop_all(&mut self, gone: &[(u32, Arc<ViewQuery>)]) {
        if gone.is_empty() {
            return;
        }
        for (number, query) in gone {
            self.by_pair.remove(&query.selector, *number);
            self.views.release(*number);
        }
        let is_gone = |number: &u32| gone.binary_search_by_key(number, |(it, _)| *it).is_ok();
        for set in 0..self.watchers.len() {
            if self.watchers[set].iter().any(is_gone) {
                self.watchers.get_mut(set).retain(|number| !is_gone(number));
            }
        }
    }

    /// Returns the number of views.
    pub fn count(&self) -> usize {
        self.views.count()
    }

    /// All views, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &CachedView)> {
        self.views.iter()
    }

    /// Returns whether the view of this number counts the pods of a label set.
    pub fn watches(&self, number: u32, set: LabelSetId) -> bool {
        self.counts(set) && self.watchers[set.index()].contains(&number)
    }
}

/// The number of domains above which the counts are also kept in order, so that the smallest is
/// known without reading all of them.
const MANY_DOMAINS: usize = 64;

/// The matching pods per domain of a partition.
#[derive(Debug, Clone)]
pub struct View {
    counts: Vec<u32>,
    /// The number of domains at each count; only for many domains.
    levels: Option<BTreeMap<u32, u32>>,
}

impl View {
    /// A view of these numbers of pods per node.
    pub fn counting(nodes: impl Iterator<Item = (Slot, u32)>, partition: &Partition) -> Self {
        let mut counts = vec![0; partition.id_bound()];
        for (slot, pods) in nodes {
            let domain = partition.member(slot);
            if domain.is_some() {
                counts[domain.index()] += pods;
            }
        }
        let levels = (partition.domain_count() > MANY_DOMAINS).then(|| {
            let mut levels = BTreeMap::new();
            for domain in partition.domains() {
                *levels.entry(counts[domain.index()]).or_default() += 1;
            }
            levels
        });
        Self { counts, levels }
    }

    /// Matching pods in a domain; 0 if the value is no domain.
    pub fn count(&self, domain: DomainId) -> u32 {
        self.counts.get(domain.index()).copied().unwrap_or(0)
    }

    /// Matching pods by domain; domains past its end have none.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The smallest count of a domain; `None` without domains.
    pub fn smallest(&self, partition: &Partition) -> Option<u32> {
        match &self.levels {
            Some(levels) => levels.first_key_value().map(|(count, _)| *count),
            None => partition.domains().map(|domain| self.count(domain)).min(),
        }
    }

    /// The smallest count of a domain, if `domain` had `more` pods more.
    pub fn smallest_with(&self, partition: &Partition, domain: DomainId, more: u32) -> u32 {
        let own = self.count(domain);
        let others = match &self.levels {
            Some(levels) => {
                let has_others = |(count, domains): &(&u32, &u32)| **count != own || **domains > 1;
                levels.iter().find(has_others).map(|(count, _)| *count)
            }
            None => {
                let others = partition.domains().filter(|other| *other != domain);
                others.map(|other| self.count(other)).min()
            }
        };
        others.map_or(own + more, |others| others.min(own + more))
    }

    /// The largest count of a domain.
    pub fn largest(&self) -> u32 {
        let counts = || self.counts.iter().copied().max();
        let levels = self.levels.as_ref();
        let largest = levels.map_or_else(counts, |l| l.last_key_value().map(|(count, _)| *count));
        largest.unwrap_or(0)
    }

    /// The number of domains at each count, if the counts are kept in order.
    pub fn levels(&self) -> Option<&BTreeMap<u32, u32>> {
        self.levels.as_ref()
    }

    /// Follows one more matching pod in a domain.
    pub fn add(&mut self, domain: DomainId) {
        self.set(domain, self.count(domain) + 1);
    }

    /// Follows one matching pod fewer in a domain.
    pub fn remove(&mut self, domain: DomainId) {
        self.set(domain, self.count(domain) - 1);
    }

    fn set(&mut self, domain: DomainId, to: u32) {
        let from = std::mem::replace(&mut self.counts[domain.index()], to);
        if let Some(levels) = &mut self.levels {
            let domains = levels.get_mut(&from).expect("a domain stands at its count");
            *domains -= 1;
            if *domains == 0 {
                levels.remove(&from);
            }
            *levels.entry(to).or_default() += 1;
        }
    }
}
