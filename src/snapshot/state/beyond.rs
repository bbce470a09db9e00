//! The data that affinity between pods reads besides the counts of a namespace: other namespaces,
//! their labels, and the terms of running pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::read_view::ReadView;
use crate::matching::DiskUses;
use crate::snapshot::budget::Delay;
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::objects::cluster_objects::ClusterObjects;
use crate::snapshot::objects::node::NodeRef;
use crate::snapshot::objects::pod_terms::{HeldTerm, TermTable};
use crate::snapshot::objects::requested::RequestedTable;
use crate::snapshot::objects::slots::Slot;
use crate::snapshot::objects::storage_objects::StorageObjects;
use crate::snapshot::objects::storage_use::PodUse;

/// The cost of comparing a term with a pod, in units.
const UNITS_PER_TERM: usize = 30;

/// The cost of looking at a user of a claim or disk, in units.
const UNITS_PER_USER: usize = 20;

/// The nodes and the storage of one revision. They stay as they are while this is held.
#[derive(Debug, Clone)]
pub struct HeldStorage {
    nodes: Arc<PartitionedNodes>,
    cluster: Arc<ClusterObjects>,
}

impl HeldStorage {
    /// The existing node of a slot.
    pub fn node(&self, slot: Slot) -> Option<NodeRef<'_>> {
        self.nodes.nodes().get(slot)
    }

    /// Claims, persistent volumes and storage classes.
    pub fn objects(&self) -> &StorageObjects {
        &self.cluster.storage
    }
}

impl<'a> ReadView<'a> {
    /// The other namespaces that the decision reads, with their names, ascending.
    pub fn others(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let own = *self;
        let others = self.others.unwrap_or_default().iter();
        others.filter_map(move |name| {
            let namespace = own.state.namespace(name).filter(|_| **name != *own.name)?;
            let read_view = Self {
                name,
                namespace,
                caches_views: false,
                others: None,
                ..own
            };
            Some((&**name, read_view))
        })
    }

    /// Voids the decision, because it has to read other namespaces and cannot do so here.
    pub fn needs_others(&self) {
        if self.others.is_none() {
            self.budget.give_up(Delay::Long);
        }
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
    pub fn is_claim_in_use(&self, claim: &str, namespace: &str) -> bool {
        let users = self
            .state
            .requested
            .storage_use()
            .users_of(claim, namespace);
        let mut users = users.take_while(|_| self.affords(UNITS_PER_USER));
        users.any(|slot| self.nodes.get(slot).is_some())
    }

    /// Returns the storage that reservations use on existing nodes, in the order in which the
    /// reservations were made.
    pub fn reserved_storage(&self) -> impl Iterator<Item = (NodeRef<'a>, &'a PodUse)> {
        let nodes = self.nodes;
        let reserved = self.state.requested.storage_use().reserved();
        reserved.filter_map(move |(slot, used)| Some((nodes.get(slot)?, used)))
    }

    /// The nodes with pods that use disks which conflict with these.
    pub fn conflicting_with(&self, disks: &DiskUses<'_>) -> impl Iterator<Item = Slot> {
        let table = self.state.requested.storage_use();
        let ids = disks.ids().flat_map(|(kind, id)| table.uses_of(kind, id));
        let uses = ids.take_while(|(_, disk)| {
            let compared = 1 + disk.monitors.len();
            self.affords(compared.saturating_mul(UNITS_PER_USER))
        });
        let conflicting = uses.filter(|(_, disk)| disks.conflict_with(disk));
        conflicting.map(|(slot, _)| *slot)
    }

    /// The nodes and the storage, which stay as they are while this is held.
    pub fn hold_storage(&self) -> HeldStorage {
        HeldStorage {
            nodes: Arc::clone(&self.state.shared.nodes),
            cluster: Arc::clone(&self.state.shared.cluster),
        }
    }

    /// The terms by which pods on nodes keep away a pod with these labels in a namespace.
    pub fn keeping_away(
        &self,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a HeldTerm> {
        self.about(RequestedTable::anti_affinity, labels, namespace)
    }

    /// Returns whether kube-scheduler scores terms of pods on nodes about a pod with these labels.
    pub fn is_scored_by_pods(
        &self,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> bool {
        let mut terms = self.about(RequestedTable::scored_terms, labels, namespace);
        terms.next().is_some()
    }

    fn about(
        &self,
        of: fn(&RequestedTable) -> &TermTable,
        labels: &'a BTreeMap<String, String>,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a HeldTerm> {
        let table = Some(of(&self.state.requested)).filter(|table| !table.is_empty());
        let affords = |table: &&TermTable| {
            self.affords(table.candidates(labels).saturating_mul(UNITS_PER_TERM))
        };
        let table = table.filter(affords);
        let own = self.namespace_labels(namespace);
        let about = table.map(|table| table.about(labels, namespace, own));
        about.into_iter().flatten()
    }
}
