//! The read view of a decision: one revision of one namespace, and the counts for its queries.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::namespace::Namespace;
use super::revision::State;
use crate::matching::{Requested, Selector};
use crate::proto::v1;
use crate::snapshot::budget::Budget;
use crate::snapshot::counts::domain_counts::DomainCounts;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::partition_in_use::PartitionInUse;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::view::View;
use crate::snapshot::counts::views::{ViewQuery, Views};
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::nominated::NominatedPod;
use crate::snapshot::objects::owners::{Controller, NamedBudget, Owners, OwnersVersion};
use crate::snapshot::objects::slots::Slot;

/// The cost of checking a nominated pod, in units.
const UNITS_PER_NOMINATED: usize = 20;

/// The cost of adding a count up, in units.
const UNITS_PER_COUNT: usize = 2;

/// One revision of one namespace.
#[derive(Clone, Copy)]
pub struct ReadView<'a> {
    /// The revision.
    pub revision: i64,
    /// The nodes.
    pub nodes: &'a Nodes,
    pub(in crate::snapshot) state: &'a State,
    /// The default constraints.
    pub defaults: &'a Arc<Defaults>,
    /// The name of the namespace.
    pub(in crate::snapshot) name: &'a str,
    /// The namespace; an empty one if the snapshot has none of the name.
    pub(in crate::snapshot) namespace: &'a Namespace,
    /// True if counts are cached as views.
    pub(in crate::snapshot) caches_views: bool,
    /// The budget of a decision.
    pub(in crate::snapshot) budget: &'a Budget<'a>,
    /// The names of other namespaces that the decision reads, ascending; `None` where they were not
    /// looked up.
    pub(in crate::snapshot) others: Option<&'a [Box<str>]>,
    /// The deletes of the overlay that hit nothing, in its order.
    pub unknown_deletes: &'a [v1::ObjectReference],
}

impl State {
    /// Reads a namespace for a decision, within a budget. `others` are the other namespaces that it
    /// reads.
    pub(in crate::snapshot) fn read_view<'a>(
        &'a self,
        name: &'a str,
        others: Option<&'a [Box<str>]>,
        budget: &'a Budget<'a>,
    ) -> ReadView<'a> {
        let namespace = self.namespace(name);
        ReadView {
            revision: self.revision,
            nodes: self.nodes(),
            state: self,
            defaults: self.defaults(),
            name,
            namespace: namespace.unwrap_or_else(|| Namespace::none()),
            caches_views: namespace.is_some(),
            budget,
            others,
            unknown_deletes: &[],
        }
    }
}

/// The defaults and the owners of a namespace, at one revision. This keeps neither in memory.
#[derive(Debug, Clone)]
pub struct DeducedFrom {
    defaults: Weak<Defaults>,
    owners: OwnersVersion,
}

impl DeducedFrom {
    /// Returns whether a read view has the same defaults and owners.
    pub fn holds_on(&self, read_view: &ReadView<'_>) -> bool {
        // As long as a weak reference exists, its address is not used again.
        self.defaults.as_ptr() == Arc::as_ptr(read_view.defaults)
            && self.owners.is_of(read_view.namespace.owners())
    }
}

/// A label set and the pods with it.
#[derive(Clone, Copy)]
pub struct CountedSet<'a> {
    sets: &'a LabelSets,
    id: LabelSetId,
}

impl<'a> CountedSet<'a> {
    /// The label set's labels, ascending by key.
    pub fn labels(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sets.texts(self.id)
    }

    /// Returns the number of pods on each node where one counts.
    pub fn counts(self) -> impl Iterator<Item = (Slot, u32)> {
        self.sets.counts(self.id)
    }
}

impl<'a> ReadView<'a> {
    /// Returns whether nodes are checked for room: at least one reports its resources.
    pub fn knows_room(&self) -> bool {
        self.nodes.know_room()
    }

    /// Returns the requests of pods on a node; none where the decision does not read them.
    pub fn requested(&self, slot: Slot) -> &'a Requested {
        let known = self.knows_room().then(|| self.state.requested.get(slot));
        known.flatten().unwrap_or_else(|| Requested::nothing())
    }

    /// Returns the requests of the pods on a node whose priority is not lower than this.
    pub fn requested_from(&self, slot: Slot, priority: i32) -> Requested {
        self.state.requested.at_or_above(slot, priority)
    }

    /// The pods that are nominated to existing nodes, of all namespaces.
    pub fn nominated(&self) -> impl Iterator<Item = (Slot, &'a NominatedPod)> {
        let (nominations, nodes) = (&self.state.shared.nominations, self.nodes);
        let affords = || self.affords(nominations.len().saturating_mul(UNITS_PER_NOMINATED));
        let all = (!nominations.is_empty() && affords()).then(|| nominations.iter());
        let all = all.into_iter().flatten();
        all.filter_map(move |(node, pod)| Some((nodes.find(node)?, pod)))
    }

    /// The selector that the defaults have for a pod, if any can be deduced.
    pub fn deduce(
        &self,
        labels: &BTreeMap<String, String>,
        controller: Option<&Controller>,
    ) -> Option<Selector> {
        let owners = self.namespace.owners();
        owners.deduce(labels, controller, self.budget)
    }

    /// Returns the facts that [`Self::deduce`] and the defaults read here.
    pub fn deduced_from(&self) -> DeducedFrom {
        DeducedFrom {
            defaults: Arc::downgrade(self.defaults),
            owners: self.namespace.owners().version(),
        }
    }

    /// The services, controllers and budgets of the namespace.
    pub fn owners(&self) -> &'a Owners {
        self.namespace.owners()
    }

    /// The pod disruption budgets of the namespace, ascending by name.
    pub fn budgets(&self) -> impl Iterator<Item = NamedBudget<'a>> {
        self.namespace.owners().budgets()
    }

    /// The pod of this name in the namespace, as an object.
    pub fn whole_pod(&self, namespace: &str, name: &str) -> Option<v1::Pod> {
        self.namespace.pod_to_wire(namespace, name, self.nodes)
    }

    /// Takes the cost of a piece of work from the budget. The work may begin if
    /// this returns `true`. Otherwise the decision must be discarded.
    pub fn affords(&self, units: usize) -> bool {
        self.budget.takes(units)
    }

    /// Takes memory from the budget that is held until the decision ends. It may be filled if this
    /// returns `true`.
    pub fn holds(&self, bytes: usize) -> bool {
        self.budget.holds(bytes)
    }

    /// Returns whether to continue: the caller still waits, and the budget is not
    /// spent.
    pub fn goes_on(&self) -> bool {
        self.budget.delay().is_none()
    }

    /// Returns whether to continue a piece of work whose whole cost was taken; the next part costs
    /// this much of it.
    pub fn goes_on_for(&self, units: usize) -> bool {
        self.budget.goes_on(units)
    }

    /// The partition of a key; one without nodes when the budget does not allow building it.
    pub fn in_use(&self, key: &partition::Key) -> PartitionInUse {
        let nodes = &self.state.shared.nodes;
        let in_use = nodes.in_use(key, &self.state.upkeep, self.budget);
        in_use.unwrap_or_else(|| PartitionInUse::none(key))
    }

    /// Answers a query: from a cached view, or by counting label sets and caching the view.
    pub fn count(&self, query: Query<'_>) -> DomainCounts<'a> {
        let in_use = self.in_use(query.partition);
        if !self.goes_on() {
            return self.nothing(in_use);
        }
        let counters = &self.state.upkeep.counters;
        if self.caches_views {
            let views = self.namespace.views.load();
            if let Some(view) = views.find(query.selector, in_use.id()) {
                counters.view_hits.count_one();
                return DomainCounts::of(in_use, Arc::clone(view), self.nodes);
            }
        }
        let sets = self.namespace.label_sets();
        if !self.budget.affords(sets.units(query.selector)) {
            return self.nothing(in_use);
        }
        let matched: Vec<_> = sets.matching(query.selector, self.budget).collect();
        let counts: usize = matched.iter().map(|set| sets.nodes_of(*set)).sum();
        if !self.affords(counts.saturating_mul(UNITS_PER_COUNT)) {
            return self.nothing(in_use);
        }
        counters.view_builds.count_one();
        let pods = matched.iter().flat_map(|set| sets.counts(*set));
        let view = Arc::new(View::counting(pods, &in_use.partition));
        if self.caches_views && self.goes_on() {
            self.cache(query.selector, &in_use, &view, &matched);
        }
        DomainCounts::of(in_use, view, self.nodes)
    }

    /// Caches a view of these label sets. It is found again at this revision, and at later ones
    /// unless a change of the namespace has come first.
    fn cache(
        &self,
        selector: &Selector,
        in_use: &PartitionInUse,
        view: &Arc<View>,
        matched: &[LabelSetId],
    ) {
        let counted = (&**view, matched.len());
        let query = ViewQuery::new(selector, in_use, counted, &self.state.upkeep);
        self.namespace.views.rcu(|views| {
            let mut views = Views::clone(views);
            match &query {
                Some(query) => views.insert(query, view, matched),
                // Others make room for the next one.
                None => views.drop_unused(views.count().div_ceil(4)),
            }
            views
        });
    }

    /// Returns empty counts, for a decision that will be discarded.
    fn nothing(&self, in_use: PartitionInUse) -> DomainCounts<'a> {
        let nothing = View::counting(std::iter::empty(), &in_use.partition);
        DomainCounts::of(in_use, Arc::new(nothing), self.nodes)
    }

    /// Takes the cost of matching a selector against all label sets from the budget. The work may
    /// begin if this returns `true`.
    pub fn affords_matching(&self, selector: &Selector) -> bool {
        self.affords(self.namespace.label_sets().units(selector))
    }

    /// The label sets whose pods a selector counts, with the numbers of pods on each node. Reads
    /// all label sets.
    pub fn matching_sets(&self, selector: &Selector) -> impl Iterator<Item = CountedSet<'a>> {
        let sets = self.namespace.label_sets();
        let matching = sets.matching(selector, self.budget);
        matching.map(|id| CountedSet { sets, id })
    }

    /// The nodes with terminating pods that a selector would count otherwise, and their numbers.
    pub fn terminating(&self, selector: &'a Selector) -> impl Iterator<Item = (Slot, u32)> {
        let sets = self.namespace.label_sets();
        let each = UNITS_PER_COUNT + 10 * selector.len();
        let affords = self.affords(sets.terminating().len().saturating_mul(each));
        let pods = affords.then(|| sets.terminating());
        let matching = pods.into_iter().flatten();
        matching
            .filter(move |(set, ..)| sets.matches(*set, selector))
            .map(|(_, slot, pods)| (slot, pods))
    }
}
