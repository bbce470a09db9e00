//! What a decision reads: one revision of one namespace, and the counts that
//! it asks for.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fork::{Fork, keep_in};
use super::namespace::Namespace;
use crate::matching::Selector;
use crate::snapshot::budget::{Budget, Delay};
use crate::snapshot::counts::domain_counts::Counted;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::partitions::Lens;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::counts::view::View;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::owners::Controller;
use crate::snapshot::objects::slots::Slot;

/// What it costs to add a count up, in units.
const UNITS_PER_COUNT: usize = 2;

/// One revision of one namespace.
#[derive(Clone, Copy)]
pub struct Cut<'a> {
    /// The revision.
    pub revision: i64,
    /// The nodes.
    pub nodes: &'a Nodes,
    /// The default constraints.
    pub defaults: &'a Defaults,
    /// The namespace; an empty one if the snapshot has none of the name.
    pub(in crate::snapshot) namespace: &'a Namespace,
    pub(in crate::snapshot) upkeep: &'a Upkeep,
    /// Which decision it is for.
    pub(in crate::snapshot) id: DecisionId,
    /// What may be spent on a decision.
    pub(in crate::snapshot) budget: &'a Budget<'a>,
    pub(in crate::snapshot) source: Source<'a>,
}

/// Where views are found and kept.
#[derive(Clone, Copy)]
pub(in crate::snapshot) enum Source<'a> {
    /// In the namespace of the state, which is locked for reading.
    State,
    /// In a fork of it.
    Fork(&'a Fork<'a>),
    /// Nowhere: the namespace is not there.
    Nowhere,
}

/// Tells decisions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionId(u64);

impl DecisionId {
    /// One that no other decision has. Each thread counts its own, for one
    /// count would be a cache line that all threads take from each other.
    pub(in crate::snapshot) fn next() -> Self {
        static NEXT_THREAD: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NEXT: Cell<u64> = Cell::new(NEXT_THREAD.fetch_add(1, Ordering::Relaxed) << 40);
        }
        Self(NEXT.replace(NEXT.get() + 1))
    }
}

/// A question: how many pods that match `selector` count in each domain of a
/// partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Which pods are counted.
    pub selector: &'a Selector,
    /// Which nodes are looked at, and what parts them.
    pub partition: &'a partition::Key,
}

/// A label set and the pods with it.
#[derive(Clone, Copy)]
pub struct CountedSet<'a> {
    sets: &'a LabelSets,
    id: LabelSetId,
}

impl<'a> CountedSet<'a> {
    /// Its labels, ascending by key.
    pub fn labels(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sets.texts(self.id)
    }

    /// How many pods count on each node that has any.
    pub fn counts(self) -> impl Iterator<Item = (Slot, u32)> {
        self.sets.counts(self.id)
    }
}

impl<'a> Cut<'a> {
    /// The selector that the defaults have for a pod, if any can be deduced.
    pub fn deduce(
        &self,
        labels: &BTreeMap<String, String>,
        controller: Option<&Controller>,
    ) -> Option<Selector> {
        self.namespace.owners().deduce(labels, controller)
    }

    /// Takes what a piece of work costs from the budget, which may begin if this
    /// says so. Otherwise the decision is worth nothing, whatever it is.
    pub fn affords(&self, units: usize) -> bool {
        self.budget.takes(units)
    }

    /// Whether to go on: somebody still waits, and there is something left to
    /// spend.
    pub fn goes_on(&self) -> bool {
        self.budget.delay().is_none()
    }

    /// The nodes of a partition; none of them when the budget does not allow
    /// looking.
    pub fn lens(&self, key: &partition::Key) -> Lens {
        let upkeep = self.upkeep;
        let lens = self.nodes.lens(key, upkeep, self.id, self.budget);
        lens.unwrap_or_else(|| Lens::none(key))
    }

    /// Answers a query: from a view that is kept, or by counting label sets
    /// and keeping the view.
    pub fn count(&self, query: Query<'_>) -> Counted<'a> {
        let lens = self.lens(query.partition);
        if !self.goes_on() {
            return self.nothing(lens);
        }
        let kept = match self.source {
            Source::Nowhere => None,
            Source::Fork(fork) => fork.find(query, &lens),
            Source::State => match self.namespace.views().try_read() {
                Some(views) => (views.version() == self.upkeep.version())
                    .then(|| views.find(query.selector, lens.id))
                    .flatten()
                    .map(Arc::clone),
                None => {
                    self.budget.give_up(Delay::Held);
                    return self.nothing(lens);
                }
            },
        };
        if let Some(view) = kept {
            view.touch(self.upkeep.tick());
            self.upkeep.tally().view_hits.count_one();
            return Counted::of(lens, view, self.nodes);
        }
        let sets = self.namespace.label_sets();
        if !self.budget.affords(sets.units(query.selector)) {
            return self.nothing(lens);
        }
        let matched: Vec<_> = sets.matching(query.selector, self.budget).collect();
        let nodes = matched.iter().map(|set| sets.nodes_of(*set));
        if !self
            .budget
            .takes(nodes.sum::<usize>().saturating_mul(UNITS_PER_COUNT))
        {
            return self.nothing(lens);
        }
        self.upkeep.tally().view_builds.count_one();
        let view = self.build(&matched, &lens);
        let view = match self.source {
            Source::Nowhere => Arc::new(view),
            Source::Fork(fork) => fork.keep(query, view, matched, &lens),
            Source::State => match self.namespace.views().try_write() {
                Some(mut views) => keep_in(&mut views, self.upkeep, query, view, matched),
                None => Arc::new(view),
            },
        };
        Counted::of(lens, view, self.nodes)
    }

    /// Counts nothing, for a decision that is worth nothing.
    fn nothing(&self, lens: Lens) -> Counted<'a> {
        let nothing = View::counting(std::iter::empty(), lens.id, &lens.partition, 0);
        Counted::of(lens, Arc::new(nothing), self.nodes)
    }

    /// The label sets whose pods a selector counts, with how many of them
    /// count on each node. Looks at all label sets.
    pub fn matching_sets(&self, selector: &Selector) -> impl Iterator<Item = CountedSet<'a>> {
        let sets = self.namespace.label_sets();
        let matching = sets.matching(selector, self.budget);
        matching.map(|id| CountedSet { sets, id })
    }

    /// Where terminating pods are that a selector would count otherwise. Looks
    /// at all pods.
    pub fn terminating(&self, selector: &Selector) -> impl Iterator<Item = Slot> {
        let sets = self.namespace.label_sets();
        let mut matching = vec![false; sets.slot_count()];
        for set in sets.matching(selector, self.budget) {
            matching[set.index()] = true;
        }
        let pods = self.namespace.pods().map(|(_, pod)| pod);
        pods.filter(move |pod| matching[pod.labels.index()] && pod.life.is_terminating())
            .filter_map(|pod| pod.node)
    }

    fn build(&self, matched: &[LabelSetId], lens: &Lens) -> View {
        let sets = self.namespace.label_sets();
        let nodes = matched.iter().flat_map(|set| sets.counts(*set));
        View::counting(nodes, lens.id, &lens.partition, self.upkeep.tick())
    }
}
