//! The data that affinity between pods reads besides the counts of a namespace: other namespaces,
//! their labels, and the terms of running pods.

use std::collections::{BTreeMap, HashSet};

use super::read_view::ReadView;
use crate::matching::DiskUses;
use crate::snapshot::deadline::Stopped;
use crate::snapshot::objects::node::NodeRef;
use crate::snapshot::objects::pod_terms::{HeldTerm, TermTable};
use crate::snapshot::objects::requested::RequestedTable;
use crate::snapshot::objects::slots::Slot;
use crate::snapshot::objects::storage_objects::StorageObjects;
use crate::snapshot::objects::storage_use::PodUse;

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

    /// Ends the decision, which has to read other namespaces, if it cannot do so here.
    ///
    /// # Errors
    /// [`Stopped::Large`].
    pub fn needs_others(&self) -> Result<(), Stopped> {
        self.others.map(|_| ()).ok_or(Stopped::Large)
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
