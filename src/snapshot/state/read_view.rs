//! The read view of a decision: one revision of one namespace, and the counts for its queries.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::namespace::Namespace;
use super::shards::SharedObjects;
use crate::matching::{Requested, Selector};
use crate::proto::v1;
use crate::snapshot::counts::domain_counts::DomainCounts;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::partition_in_use::{PartitionId, PartitionInUse};
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::counts::usage::DecisionId;
use crate::snapshot::counts::view::View;
use crate::snapshot::counts::views::Views;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::locks;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::nominated::NominatedPod;
use crate::snapshot::objects::owners::{Controller, NamedBudget, Owners, OwnersVersion};
use crate::snapshot::objects::requested::RequestedTable;
use crate::snapshot::objects::slots::Slot;

/// One revision of one namespace.
#[derive(Clone, Copy)]
pub struct ReadView<'a> {
    /// The revision.
    pub revision: i64,
    /// The nodes.
    pub nodes: &'a Nodes,
    pub(in crate::snapshot) shared: &'a SharedObjects,
    /// The requests of pods on each node, the terms by which they keep others away and the storage
    /// that they use; `None` where the decision reads none of these.
    pub(in crate::snapshot) requested: Option<&'a RequestedTable>,
    /// The default constraints.
    pub defaults: &'a Arc<Defaults>,
    /// The namespace; an empty one if the snapshot has none of the name.
    pub(in crate::snapshot) namespace: &'a Namespace,
    pub(in crate::snapshot) upkeep: &'a Upkeep,
    /// The id of the decision.
    pub(in crate::snapshot) id: DecisionId,
    /// The deadline of the decision.
    pub deadline: &'a Deadline<'a>,
    /// The store of views; `None` when the namespace does not exist.
    pub(in crate::snapshot) views: Option<&'a dyn ViewStore>,
    /// The other namespaces that the decision reads; `None` where they were not requested.
    pub(in crate::snapshot) others: Option<&'a dyn OtherNamespaces>,
    /// The deletes of the overlay that hit nothing, in its order.
    pub unknown_deletes: &'a [v1::ObjectReference],
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

/// The other namespaces that a decision reads.
pub trait OtherNamespaces {
    /// The views of all these namespaces, with their names, ascending. `own` is the view of the
    /// pod's namespace.
    fn each<'a>(
        &'a self,
        own: ReadView<'a>,
    ) -> Box<dyn Iterator<Item = (&'a str, ReadView<'a>)> + 'a>;
}

/// A store of views, in which a decision finds and keeps them.
pub trait ViewStore {
    /// A kept view of a query.
    ///
    /// # Errors
    /// [`Stopped::Held`] when it cannot be looked up without waiting.
    fn find(
        &self,
        query: Query<'_>,
        id: PartitionId,
        upkeep: &Upkeep,
    ) -> Result<Option<Arc<View>>, Stopped>;

    /// Keeps a view of label sets that the selector matches, if it is useful. Returns the view to
    /// answer from.
    fn keep(
        &self,
        query: Query<'_>,
        view: View,
        matched: Vec<LabelSetId>,
        in_use: &PartitionInUse,
        upkeep: &Upkeep,
    ) -> Arc<View>;
}

/// The views of a namespace of a state, which is locked for reading.
pub(in crate::snapshot) struct LockedViews<'a> {
    pub views: &'a RwLock<Views>,
    /// True if a caller that keeps a view waits for the lock.
    pub waits: bool,
}

impl ViewStore for LockedViews<'_> {
    fn find(
        &self,
        query: Query<'_>,
        id: PartitionId,
        upkeep: &Upkeep,
    ) -> Result<Option<Arc<View>>, Stopped> {
        let views = locks::read(self.views, self.waits)?;
        let is_current = views.version == upkeep.version();
        let kept = || views.watched.find(query.selector, id);
        let found = is_current.then(kept).flatten();
        Ok(found.map(Arc::clone))
    }

    fn keep(
        &self,
        query: Query<'_>,
        view: View,
        matched: Vec<LabelSetId>,
        _: &PartitionInUse,
        upkeep: &Upkeep,
    ) -> Arc<View> {
        match self.views.try_write() {
            Some(mut views) => views.keep(upkeep, query, view, matched),
            None => Arc::new(view),
        }
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
        let known = self.requested.filter(|_| self.knows_room());
        let known = known.and_then(|requested| requested.get(slot));
        known.unwrap_or_else(|| Requested::nothing())
    }

    /// Returns the requests of the pods on a node whose priority is not lower than this.
    pub fn requested_from(&self, slot: Slot, priority: i32) -> Requested {
        let table = self.requested;
        table.map_or_else(Requested::default, |it| it.at_or_above(slot, priority))
    }

    /// The pods that are nominated to existing nodes, of all namespaces.
    pub fn nominated(
        &self,
    ) -> Result<impl Iterator<Item = (Slot, &'a NominatedPod)> + use<'a>, Stopped> {
        let (nominations, nodes) = (&self.shared.nominations, self.nodes);
        self.deadline.step(nominations.len())?;
        let all = nominations.iter();
        Ok(all.filter_map(move |(node, pod)| Some((nodes.find(node)?, pod))))
    }

    /// Returns the number of objects that a decision about a pod in the namespace can look at.
    pub fn objects(&self, uses_storage: bool) -> usize {
        let storage = match uses_storage {
            true => self.shared.cluster.storage.count(),
            false => 0,
        };
        let terms = |it: &RequestedTable| it.anti_affinity().len() + it.scored_terms().len();
        self.nodes.len()
            + self.namespace.label_sets().len()
            + self.namespace.owners().len()
            + self.shared.nominations.len()
            + self.requested.map_or(0, terms)
            + storage
    }

    /// The selector that the defaults have for a pod, if any can be deduced.
    pub fn deduce(
        &self,
        labels: &BTreeMap<String, String>,
        controller: Option<&Controller>,
    ) -> Result<Option<Selector>, Stopped> {
        let owners = self.namespace.owners();
        owners.deduce(labels, controller, self.deadline)
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

    /// The partition of a key.
    pub fn in_use(&self, key: &partition::Key) -> Result<PartitionInUse, Stopped> {
        let nodes = &self.shared.nodes;
        nodes.in_use(key, self.upkeep, self.id, self.deadline)
    }

    /// Answers a query: from a kept view, or by counting label sets and keeping the view.
    ///
    /// # Errors
    /// The deadline has passed, or a batch holds the lock of the views.
    pub fn count(&self, query: Query<'_>) -> Result<DomainCounts<'a>, Stopped> {
        let in_use = self.in_use(query.partition)?;
        let found = self.views.map(|v| v.find(query, in_use.id, self.upkeep));
        if let Some(view) = found.transpose()?.flatten() {
            view.usage.touch(self.upkeep.tick(), self.id);
            self.upkeep.counters.view_hits.count_one();
            return Ok(DomainCounts::of(in_use, view, self.nodes));
        }
        let sets = self.namespace.label_sets();
        let matched = sets.matching(query.selector, self.deadline);
        let matched: Vec<_> = matched.collect::<Result<_, _>>()?;
        let counts: usize = matched.iter().map(|set| sets.nodes_of(*set)).sum();
        self.deadline.step(counts)?;
        self.upkeep.counters.view_builds.count_one();
        let pods = matched.iter().flat_map(|set| sets.counts(*set));
        let now = (self.upkeep.tick(), self.id);
        let view = View::counting(pods, in_use.id, &in_use.partition, now);
        let view = match self.views {
            Some(views) => views.keep(query, view, matched, &in_use, self.upkeep),
            None => Arc::new(view),
        };
        Ok(DomainCounts::of(in_use, view, self.nodes))
    }

    /// The label sets whose pods a selector counts, with the numbers of pods on each node. Reads
    /// all label sets.
    pub fn matching_sets(
        &self,
        selector: &Selector,
    ) -> impl Iterator<Item = Result<CountedSet<'a>, Stopped>> + use<'a> {
        let sets = self.namespace.label_sets();
        let matching = sets.matching(selector, self.deadline);
        matching.map(|id| Ok(CountedSet { sets, id: id? }))
    }

    /// The nodes with terminating pods that a selector would count otherwise, and their numbers.
    pub fn terminating<'s>(
        &self,
        selector: &'s Selector,
    ) -> impl Iterator<Item = Result<(Slot, u32), Stopped>> + use<'a, 's> {
        let (sets, deadline) = (self.namespace.label_sets(), self.deadline);
        let each = 1 + selector.len();
        sets.terminating()
            .filter_map(move |(set, slot, pods)| match deadline.step(each) {
                Ok(()) => sets.matches(set, selector).then_some(Ok((slot, pods))),
                Err(stopped) => Some(Err(stopped)),
            })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::account::Account;
    use crate::snapshot::counts::topology::{DomainKey, Topology};

    #[test]
    fn who_waits_for_locks_waits_for_views_as_well() {
        let (views, upkeep) = (RwLock::default(), Upkeep::new(0, &Account::new(0)));
        let partition = partition::Key {
            topology: DomainKey::Node,
            missing_is_empty: false,
            eligibility: partition::Eligibility::default(),
        };
        let query = Query {
            selector: &Selector::Nothing,
            partition: &partition,
        };
        let topology = Arc::new(Topology::default());
        let none = partition::Partition::empty(partition.clone(), &topology, 0);
        let id = PartitionInUse::unkept(topology, Arc::new(none)).id;
        let find = |waits| {
            let views = &views;
            let found = LockedViews { views, waits }.find(query, id, &upkeep);
            found.map(|view| view.is_some())
        };
        let begun = Barrier::new(2);
        thread::scope(|scope| {
            let keeping = views.write();
            assert_eq!(find(false), Err(Stopped::Held));
            let waiting = scope.spawn(|| {
                begun.wait();
                find(true)
            });
            begun.wait();
            thread::sleep(Duration::from_millis(20));
            drop(keeping);
            assert_eq!(waiting.join().expect("no panic"), Ok(false));
        });
    }
}
