//! The read view of a decision: one revision of one namespace, and the counts for its queries. Affinity
//! between pods also reads other namespaces, their labels, and the terms of running pods.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::revision::{Namespace, State};
use crate::matching::{DiskUses, Requested, Selector};
use crate::proto::v1;
use crate::snapshot::counters;
use crate::snapshot::counts::domain_counts::DomainCounts;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::partition::{PartitionInUse, Query};
use crate::snapshot::counts::views::{View, ViewQuery, Views};
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::cluster_objects::StorageObjects;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::label_sets::LabelSetId;
use crate::snapshot::objects::nodes::{NodeRef, Nodes};
use crate::snapshot::objects::nominated::NominatedPod;
use crate::snapshot::objects::owners::{Controller, NamedBudget, Owners};
use crate::snapshot::objects::pod_terms::{HeldTerm, TermTable};
use crate::snapshot::objects::requested::{PodUse, RequestedTable};
use crate::snapshot::objects::slots::Slot;

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
    /// The deadline of the decision.
    pub deadline: &'a Deadline<'a>,
    /// The deletes of the overlay that hit nothing, in its order.
    pub unknown_deletes: &'a [v1::ObjectReference],
}

impl State {
    /// Reads a namespace for a decision, until a deadline.
    pub fn read_view<'a>(&'a self, name: &'a str, deadline: &'a Deadline<'a>) -> ReadView<'a> {
        let namespace = self.namespace(name);
        ReadView {
            revision: self.revision,
            nodes: self.nodes(),
            state: self,
            defaults: self.defaults(),
            name,
            namespace: namespace.unwrap_or_else(|| Namespace::none()),
            caches_views: namespace.is_some(),
            deadline,
            unknown_deletes: &[],
        }
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
    pub fn nominated(
        &self,
    ) -> Result<impl Iterator<Item = (Slot, &'a NominatedPod)> + use<'a>, Stopped> {
        let (nominations, nodes) = (&self.state.shared.nominations, self.nodes);
        self.deadline.step(nominations.len())?;
        let all = nominations.iter();
        Ok(all.filter_map(move |(node, pod)| Some((nodes.find(node)?, pod))))
    }

    /// Returns the number of objects that a decision about a pod in the namespace can look at.
    pub fn objects(&self, uses_storage: bool) -> usize {
        let (shared, requested) = (&self.state.shared, &self.state.requested);
        let storage = match uses_storage {
            true => shared.cluster.storage.count(),
            false => 0,
        };
        self.nodes.len()
            + self.namespace.label_sets().len()
            + self.namespace.owners().len()
            + shared.nominations.len()
            + requested.anti_affinity().len()
            + requested.scored_terms().len()
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
        let nodes = &self.state.shared.nodes;
        nodes.in_use(key, &self.state.upkeep, self.deadline)
    }

    /// Answers a query: from a cached view, or by counting label sets and caching the view.
    ///
    /// # Errors
    /// The decision ends here.
    pub fn count(&self, query: Query<'_>) -> Result<DomainCounts<'a>, Stopped> {
        let in_use = self.in_use(query.partition)?;
        let counters = &self.state.upkeep.counters;
        if self.caches_views {
            let views = self.namespace.views.load();
            if let Some(view) = views.find(query.selector, in_use.id()) {
                counters::add(&counters.view_hits, 1);
                return Ok(DomainCounts::of(in_use, Arc::clone(view), self.nodes));
            }
        }
        let sets = self.namespace.label_sets();
        let matched = sets.matching(query.selector, self.deadline);
        let matched: Vec<_> = matched.collect::<Result<_, _>>()?;
        let counts: usize = matched.iter().map(|set| sets.nodes_of(*set)).sum();
        self.deadline.step(counts)?;
        counters::add(&counters.view_builds, 1);
        let pods = matched.iter().flat_map(|set| sets.counts(*set));
        let view = Arc::new(View::counting(pods, &in_use.partition));
        if self.caches_views {
            self.cache(query.selector, &in_use, &view, &matched);
        }
        Ok(DomainCounts::of(in_use, view, self.nodes))
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
        let query = ViewQuery::new(selector, in_use, &self.state.upkeep);
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

    /// The number of pods on each node that a selector counts, label set by label set. Reads all label
    /// sets.
    pub fn counted(
        &self,
        selector: &Selector,
    ) -> impl Iterator<Item = Result<(Slot, u32), Stopped>> + use<'a> {
        let sets = self.namespace.label_sets();
        let matching = sets.matching(selector, self.deadline);
        matching.flat_map(|set| {
            let (counts, stopped) = match set {
                Ok(set) => (Some(sets.counts(set).map(Ok)), None),
                Err(stopped) => (None, Some(Err(stopped))),
            };
            counts.into_iter().flatten().chain(stopped)
        })
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

impl<'a> ReadView<'a> {
    /// The other namespaces with their names, ascending. One without pods counts for nothing.
    pub fn others(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let own = *self;
        let others = self.state.namespaces();
        others
            .filter(move |(name, _)| *name != own.name)
            .map(move |(name, namespace)| {
                let read_view = Self {
                    name,
                    namespace,
                    caches_views: false,
                    ..own
                };
                (name, read_view)
            })
    }

    /// Returns whether there are Namespace objects.
    pub fn has_namespaces(&self) -> bool {
        self.state.shared.cluster.has_namespaces()
    }

    /// The labels of a namespace; `None` where it has no object.
    pub fn namespace_labels(&self, name: &str) -> Option<&'a BTreeMap<String, String>> {
        self.state.shared.cluster.labels_of(name)
    }

    /// Claims, persistent volumes and storage classes; `None` where there is neither a volume nor a
    /// class, and no feed says that it has read them.
    pub fn storage(&self) -> Option<&'a StorageObjects> {
        let storage = &self.state.shared.cluster.storage;
        (self.defaults.has_storage || storage.has_some()).then_some(storage)
    }

    /// Returns whether a pod on a node uses a claim of a namespace.
    pub fn is_claim_in_use(&self, claim: &str, namespace: &str) -> Result<bool, Stopped> {
        let users = self
            .state
            .requested
            .storage_use()
            .users_of(claim, namespace);
        for slot in self.deadline.each(users) {
            if self.nodes.get(slot?).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the storage that reservations use on existing nodes, in the order in which the
    /// reservations were made.
    pub fn reserved_storage(&self) -> impl Iterator<Item = (NodeRef<'a>, &'a PodUse)> {
        let nodes = self.nodes;
        let reserved = self.state.requested.storage_use().reserved();
        reserved.filter_map(move |(slot, used)| Some((nodes.get(slot)?, used)))
    }

    /// The nodes with pods that use disks which conflict with these.
    pub fn conflicting_with(&self, disks: &DiskUses<'_>) -> Result<HashSet<Slot>, Stopped> {
        let table = self.state.requested.storage_use();
        let ids = disks.ids().flat_map(|(kind, id)| table.uses_of(kind, id));
        let mut conflicting = HashSet::new();
        for (slot, disk) in ids {
            self.deadline.step(1 + disk.monitors.len())?;
            if disks.conflict_with(disk) {
                conflicting.insert(slot);
            }
        }
        Ok(conflicting)
    }

    /// The terms by which pods on nodes keep away a pod with these labels in a namespace.
    pub fn keeping_away(
        &self,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> Result<impl Iterator<Item = &'a HeldTerm> + use<'a>, Stopped> {
        self.about(RequestedTable::anti_affinity, labels, namespace)
    }

    /// Returns whether kube-scheduler scores terms of pods on nodes about a pod with these labels.
    pub fn is_scored_by_pods(
        &self,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> Result<bool, Stopped> {
        let mut terms = self.about(RequestedTable::scored_terms, labels, namespace)?;
        Ok(terms.next().is_some())
    }

    fn about(
        &self,
        of: fn(&RequestedTable) -> &TermTable,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> Result<impl Iterator<Item = &'a HeldTerm> + use<'a>, Stopped> {
        let table = Some(of(&self.state.requested)).filter(|table| !table.is_empty());
        let candidates = table.map_or(0, |table| table.candidates(labels));
        self.deadline.step(candidates)?;
        let own = self.namespace_labels(namespace);
        let about = table.map(|table| table.about(labels, namespace, own));
        Ok(about.into_iter().flatten())
    }
}
