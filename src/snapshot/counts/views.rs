//! The views of a namespace: which of them are kept, and how they follow changes of pods and nodes.

use std::any::Any;
use std::sync::Arc;

use super::domain::DomainId;
use super::partitioned_nodes::PartitionedNodes;
use super::partitions::Moves;
use super::query::{Query, RecentQueries};
use super::upkeep::Upkeep;
use super::view::View;
use super::watched::WatchedSelectors;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::slots::Slot;

/// The number of look-ups of a pod count that a view may cost to follow moved nodes. Beyond that,
/// counting again when next asked is cheaper.
const MAX_LOOKUPS: usize = 20_000;

/// The number of views that a namespace keeps without checking their use.
const FREE_VIEWS: usize = 64;

/// The views of a namespace.
#[derive(Debug, Default)]
pub struct Views {
    /// The version of the nodes that the views follow.
    pub(in crate::snapshot) version: u64,
    /// The kept views. Only [`Self::change`] adds and drops views.
    pub(in crate::snapshot) watched: WatchedSelectors,
    /// The bytes of the views, as [`Upkeep`] has recorded them.
    noted: usize,
    /// The parts that a running [`Self::change`] has removed.
    gone: Vec<Box<dyn Any + Send + Sync>>,
    /// The recent queries, to decide whether a view is worth keeping.
    recent: RecentQueries,
}

impl Views {
    /// Changes the set of views, and records their new size. Views are kept and dropped only here,
    /// so the total is always the sum of the sizes that namespaces recorded last, however views
    /// grew since.
    pub fn change<T>(&mut self, upkeep: &Upkeep, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = (self.noted, self.count());
        let changed = change(self);
        let bytes = self.memory_bytes();
        upkeep.note_views(before, (bytes, self.count()));
        self.noted = bytes;
        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            upkeep.discarded.add(gone, before.0.saturating_sub(bytes));
        }
        changed
    }

    /// Keeps a view, if its query is likely to come again and there is room. Returns the view to
    /// answer from.
    pub fn keep(
        &mut self,
        upkeep: &Upkeep,
        query: Query<'_>,
        view: View,
        matched: Vec<LabelSetId>,
    ) -> Arc<View> {
        if !view.partition().is_kept() {
            return Arc::new(view);
        }
        let version = upkeep.version();
        self.change(upkeep, |views| views.sync(version));
        // A namespace keeps its first views for any query. Beyond these a query must come twice: a
        // view whose query never comes again would cost every change, and displace a useful one.
        let admits = |views: &mut Self| views.count() < FREE_VIEWS || views.recent.note(query);
        if !self.change(upkeep, admits) {
            return Arc::new(view);
        }
        let bytes = self.watched.cost(query.selector, &view, &matched);
        if !upkeep.has_view_room(bytes) {
            self.change(upkeep, Self::evict_some);
        }
        if !upkeep.has_view_room(bytes) {
            // Other namespaces have taken the room. This view answers without being kept, and all
            // namespaces give up some views.
            upkeep.note_want();
            return Arc::new(view);
        }
        self.change(upkeep, |views| {
            views.watched.insert(query.selector, view, matched)
        })
    }

    /// Drops all views if they are of another version of the nodes.
    pub fn sync(&mut self, version: u64) {
        if self.version != version {
            self.version = version;
            self.clear();
        }
    }

    /// Drops all views.
    pub fn clear(&mut self) {
        if !self.watched.is_empty() {
            self.gone.push(Box::new(std::mem::take(&mut self.watched)));
        }
    }

    /// Drops all views, and the memory of queries, because the namespace is removed.
    pub fn retire(&mut self) {
        self.clear();
        self.recent = RecentQueries::default();
    }

    /// A copy that follows changes on its own.
    pub fn fork(&self) -> Self {
        Self {
            version: self.version,
            watched: self.watched.clone(),
            noted: self.noted,
            gone: Vec::new(),
            recent: self.recent.clone(),
        }
    }

    /// Returns the recorded bytes and the count of the views.
    pub fn noted(&self) -> (usize, usize) {
        (self.noted, self.count())
    }

    /// Returns the most look-ups of a pod count that following this many nodes takes.
    pub fn lookups(&self, nodes: usize) -> usize {
        let lookups = |sets: usize| nodes.saturating_mul(sets).min(MAX_LOOKUPS);
        let watched = self.watched.sizes();
        watched
            .map(|(sets, views)| views * (1 + lookups(sets)))
            .sum()
    }

    /// Follows a pod that counts on a node.
    pub fn add_pod(&mut self, set: LabelSetId, slot: Slot, nodes: &PartitionedNodes) {
        self.for_each_of(set, slot, nodes, View::add);
    }

    /// Removes a pod that no longer counts on a node.
    pub fn remove_pod(&mut self, set: LabelSetId, slot: Slot, nodes: &PartitionedNodes) {
        self.for_each_of(set, slot, nodes, View::remove);
    }

    fn for_each_of(
        &mut self,
        set: LabelSetId,
        slot: Slot,
        nodes: &PartitionedNodes,
        change: impl Fn(&mut View, DomainId, u32),
    ) {
        if !self.watched.counts(set) {
            return;
        }
        let partitions = nodes.partitions();
        self.watched.for_each_of(set, |view| {
            // A view whose partition was dropped is not asked again.
            let Some(partition) = partitions.get(view.partition()) else {
                return;
            };
            let domain = partition.member(slot);
            if domain.is_some() {
                change(Arc::make_mut(view), domain, 1);
            }
        });
    }

    /// Follows nodes that moved. Views that are cheaper to count again are dropped.
    pub fn follow(&mut self, all: &[Moves], sets: &LabelSets) {
        self.retain(|matched, view| {
            let Some(moves) = all.iter().find(|moves| moves.id == view.partition()) else {
                return true;
            };
            let lookups = moves.moves.len().saturating_mul(matched.len());
            if lookups > MAX_LOOKUPS || view.is_outgrown(moves.domain_count) {
                return false;
            }
            for change in &moves.moves {
                let pods = matched
                    .iter()
                    .map(|set| sets.counted(*set, change.slot))
                    .sum::<u32>();
                Arc::make_mut(view).follow(change, pods);
            }
            true
        });
    }

    /// Drops the views that were last used before tick `since`.
    pub fn drop_idle(&mut self, since: u64) {
        self.retain(|_, view| view.usage.last_used() >= since);
    }

    /// Drops the least useful quarter: first those used by one decision, then those unused for
    /// longest.
    pub fn evict_some(&mut self) {
        let views = self.watched.iter();
        let mut worth: Vec<_> = views.map(|(_, view)| view.usage.worth()).collect();
        if worth.is_empty() {
            return;
        }
        let mut surplus = worth.len().div_ceil(4);
        let (_, limit, _) = worth.select_nth_unstable(surplus - 1);
        let limit = *limit;
        self.retain(|_, view| {
            let goes = surplus > 0 && view.usage.worth() <= limit;
            surplus -= usize::from(goes);
            !goes
        });
    }

    fn retain(&mut self, stays: impl FnMut(&[LabelSetId], &mut Arc<View>) -> bool) {
        let gone = self.watched.retain(stays);
        if !gone.0.is_empty() {
            self.gone.push(Box::new(gone));
        }
        if self.watched.is_empty() {
            self.recent = RecentQueries::default();
        }
    }

    /// Returns the number of views.
    pub fn count(&self) -> usize {
        self.watched.view_count()
    }

    /// Returns the bytes of the views in memory. The counts of a view are measured when a view was
    /// last added or dropped, or nodes moved.
    pub fn memory_bytes(&self) -> usize {
        self.watched.memory_bytes() + self.recent.memory_bytes()
    }
}
