//! What a decision reads: one revision of one namespace, and the counts that
//! it asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::defaults::Defaults;
use super::label_sets::{LabelSetId, LabelSets};
use super::lenses::Lens;
use super::namespace::Namespace;
use super::nodes::{Nodes, Slot};
use super::owners::Controller;
use super::partition;
use super::topology::DomainId;
use super::upkeep::Upkeep;
use super::view::View;
use super::views::Views;
use crate::matching::Selector;

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
    pub(super) namespace: &'a Namespace,
    pub(super) upkeep: &'a Upkeep,
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

/// The answer to a [`Query`].
pub struct Counted<'a> {
    lens: Lens,
    view: Arc<View>,
    nodes: &'a Nodes,
}

/// A domain and what counts in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain<'a> {
    /// Value of the topology key.
    pub value: &'a str,
    /// Eligible nodes in it.
    pub eligible_nodes: u32,
    /// Matching pods on those nodes.
    pub matching_pods: u32,
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

    /// The nodes of a partition.
    pub fn lens(&self, key: &partition::Key) -> Lens {
        let upkeep = self.upkeep;
        self.nodes.lens(key, upkeep.tick(), upkeep.max_view_bytes())
    }

    /// Answers a query: from a view that is kept, or by counting label sets
    /// and keeping the view.
    pub fn count(&self, query: Query<'_>) -> Counted<'a> {
        let now = self.upkeep.tick();
        let lens = self.lens(query.partition);
        let views = self.namespace.views().read();
        let kept = (views.version() == self.upkeep.version())
            .then(|| views.find(query.selector, lens.id))
            .flatten()
            .map(Arc::clone);
        drop(views);
        let view = match kept {
            Some(view) => {
                view.touch(now);
                self.upkeep.tally().view_hits.count_one();
                view
            }
            None => {
                self.upkeep.tally().view_builds.count_one();
                self.keep(query.selector, self.build(query.selector, &lens, now))
            }
        };
        Counted::of(lens, view, self.nodes)
    }

    /// The label sets whose pods a selector counts, with how many of them
    /// count on each node. Looks at all label sets.
    pub fn matching_sets(&self, selector: &Selector) -> impl Iterator<Item = CountedSet<'a>> {
        let sets = self.namespace.label_sets();
        sets.matching(selector).map(|id| CountedSet { sets, id })
    }

    /// Where terminating pods are that a selector would count otherwise. Looks
    /// at all pods.
    pub fn terminating(&self, selector: &Selector) -> impl Iterator<Item = Slot> {
        let sets = self.namespace.label_sets();
        let mut matching = vec![false; sets.slot_count()];
        for set in sets.matching(selector) {
            matching[set.index()] = true;
        }
        let pods = self.namespace.pods().map(|(_, pod)| pod);
        pods.filter(move |pod| matching[pod.labels.index()] && pod.life.is_terminating())
            .filter_map(|pod| pod.node)
    }

    fn build(&self, selector: &Selector, lens: &Lens, now: u64) -> View {
        let sets = self.namespace.label_sets();
        let nodes = sets.matching(selector).flat_map(|set| sets.counts(set));
        View::counting(nodes, lens.id, &lens.partition, now)
    }

    fn keep(&self, selector: &Selector, view: View) -> Arc<View> {
        let bytes = view.memory_bytes();
        let mut views = self.namespace.views().write();
        let version = self.upkeep.version();
        self.upkeep.account(&mut views, |views| views.sync(version));
        while !self.upkeep.has_view_room(bytes) {
            if views.is_empty() {
                // Other namespaces have taken all the room: use it and lose it.
                return Arc::new(view);
            }
            self.upkeep.account(&mut views, Views::evict_some);
        }
        self.upkeep.account(&mut views, |views| {
            views.insert(selector, view, self.namespace.label_sets())
        })
    }
}

impl<'a> Counted<'a> {
    /// The counts of a view that is of this lens.
    pub(super) fn of(lens: Lens, view: Arc<View>, nodes: &'a Nodes) -> Self {
        Self { lens, view, nodes }
    }

    /// The smallest count of a domain; `None` without domains.
    pub fn smallest(&self) -> Option<u32> {
        self.view.smallest(&self.lens.partition)
    }

    /// How many domains there are.
    pub fn domain_count(&self) -> usize {
        self.lens.partition.domain_count()
    }

    /// The domains.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> {
        self.lens.partition.domains()
    }

    /// What counts in a domain.
    pub fn domain(&self, id: DomainId) -> Domain<'_> {
        Domain {
            value: self.lens.topology.value(id, self.nodes),
            eligible_nodes: self.lens.partition.eligible_nodes(id),
            matching_pods: self.view.count(id),
        }
    }

    /// Matching pods in a domain; 0 in a value that is none.
    pub fn matching_pods(&self, id: DomainId) -> u32 {
        self.view.count(id)
    }

    /// The value that a node has; [`DomainId::NONE`] when it lacks the key.
    pub fn domain_of(&self, slot: Slot) -> DomainId {
        self.lens.topology.domain_of(slot)
    }

    /// Whether `slots` is the list of all nodes, in node order.
    pub fn is_whole(&self, slots: &[Slot]) -> bool {
        std::ptr::eq(slots, self.nodes.order())
    }

    /// Calls `f` with each of `values` and the domain of the node that it is
    /// about, the first being that of `slots[start]`; [`DomainId::NONE`] for a
    /// node that lacks the key.
    pub fn zip_domains<T>(
        &self,
        slots: &[Slot],
        start: usize,
        values: &mut [T],
        mut f: impl FnMut(DomainId, &mut T),
    ) {
        let domain_of = self.lens.topology.domains_by_slot();
        if self.nodes.are_in_slot_order() && self.is_whole(slots) {
            for (domain, value) in domain_of[start..].iter().zip(values) {
                f(*domain, value);
            }
        } else {
            for (slot, value) in slots[start..].iter().zip(values) {
                f(
                    domain_of
                        .get(slot.index())
                        .copied()
                        .unwrap_or(DomainId::NONE),
                    value,
                );
            }
        }
    }

    /// One more than the largest number of a value.
    pub fn value_count(&self) -> usize {
        self.lens.topology.id_bound()
    }

    /// The nodes behind it.
    pub fn lens(&self) -> &Lens {
        &self.lens
    }

    /// Matching pods by domain; domains past its end have none.
    pub fn counts(&self) -> &[u32] {
        self.view.counts()
    }
}
