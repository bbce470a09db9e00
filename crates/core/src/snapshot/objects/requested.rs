//! The requests of the pods of all namespaces on each node, and their terms about other pods.

use std::sync::Arc;

use super::blocks::Blocks;
use super::pod_terms::TermTable;
use super::requirements::ReadRequirements;
use super::slots::Slot;
use super::storage_use::{PodUse, StorageUse};
use crate::matching::{Requested, Requests};
use crate::snapshot::deadline::{Deadline, Stopped};

/// The number of nodes in a block: decisions read copies, and a change of a node then copies its
/// block.
const BLOCK: usize = 16;

/// The requests of the pods on each node, by slot. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct RequestedTable {
    nodes: Blocks<NodePods, BLOCK>,
    anti_affinity: Arc<TermTable>,
    scored_terms: Arc<TermTable>,
    storage: Arc<StorageUse>,
}

/// The pods of a node.
#[derive(Debug, Clone, Default)]
struct NodePods {
    requested: Requested,
    /// The number of pods that name the node, whether or not they take room on it.
    pods: u32,
    /// The requests of the pods whose priority is not 0.
    of_priorities: Vec<RequestedOfPriority>,
}

/// The requests of the pods of one priority.
#[derive(Debug, Clone)]
struct RequestedOfPriority {
    priority: i32,
    requested: Requested,
}

impl NodePods {
    /// Adds the requests of a pod that comes, or takes away those of one that leaves.
    fn shift(&mut self, requests: Option<&Requests>, priority: i32, comes: bool) {
        let shift = |sum: &mut Requested| match comes {
            true => sum.add(requests),
            false => sum.remove(requests),
        };
        shift(&mut self.requested);
        if priority == 0 {
            return;
        }
        let all = &mut self.of_priorities;
        let place = all.iter().position(|it| it.priority == priority);
        let place = place.unwrap_or_else(|| {
            all.push(RequestedOfPriority {
                priority,
                requested: Requested::default(),
            });
            all.len() - 1
        });
        shift(&mut all[place].requested);
        if all[place].requested.pods() == 0 {
            all.swap_remove(place);
        }
    }

    /// The requests of the pods whose priority is not lower than this.
    fn requested_from(&self, priority: i32) -> Requested {
        let all = self.of_priorities.iter();
        if priority > 0 {
            let mut sum = Requested::default();
            let kept = all.filter(|it| it.priority >= priority);
            kept.for_each(|it| sum.merge(&it.requested, 1));
            return sum;
        }
        let mut sum = self.requested.clone();
        let lower = all.filter(|it| it.priority < priority);
        lower.for_each(|it| sum.merge(&it.requested, -1));
        sum
    }
}

impl RequestedTable {
    /// Returns the sum of the requests of the pods on a node whose priority is not lower than this.
    pub fn at_or_above(&self, slot: Slot, priority: i32) -> Requested {
        let pods = self.pods_of(slot);
        pods.map_or_else(Requested::default, |pods| pods.requested_from(priority))
    }

    /// Returns the sum of the requests of pods on a node.
    pub fn get(&self, slot: Slot) -> Option<&Requested> {
        self.pods_of(slot).map(|pods| &pods.requested)
    }

    /// Returns whether a pod names the node of a slot.
    pub fn has_pods(&self, slot: Slot) -> bool {
        self.pods_of(slot).is_some_and(|pods| pods.pods > 0)
    }

    fn pods_of(&self, slot: Slot) -> Option<&NodePods> {
        let index = slot.index();
        (index < self.nodes.len()).then(|| &self.nodes[index])
    }

    /// The terms by which pods keep other pods away.
    pub fn anti_affinity(&self) -> &TermTable {
        &self.anti_affinity
    }

    /// The terms by which kube-scheduler scores nodes for other pods.
    pub fn scored_terms(&self) -> &TermTable {
        &self.scored_terms
    }

    /// Returns the storage that pods use.
    pub fn storage_use(&self) -> &StorageUse {
        &self.storage
    }

    /// Counts a pod of this namespace and name that comes to a node with its requirements, or leaves
    /// it.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn shift(
        &mut self,
        slot: Slot,
        (namespace, name): (&str, &str),
        read: Option<&ReadRequirements>,
        comes: bool,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        let none = ReadRequirements::default();
        let read = read.unwrap_or(&none);
        let tables = [
            (&mut self.anti_affinity, &read.keeps_away),
            (&mut self.scored_terms, &read.scored),
        ];
        for (table, terms) in tables {
            if let Some(terms) = terms {
                deadline.step(terms.len())?;
                Arc::make_mut(table).shift(slot, terms, namespace, comes);
            }
        }
        if let Some(used) = &read.storage {
            deadline.step(used.claims.len() + used.disks.len())?;
            let used = PodUse {
                used: Arc::clone(used),
                namespace: namespace.into(),
                name: name.into(),
            };
            Arc::make_mut(&mut self.storage).shift(slot, &used, comes);
        }
        let requests = read.requests.as_deref();
        deadline.step(1 + requests.map_or(0, Requests::rare_len))?;
        self.node(slot).shift(requests, read.priority, comes);
        Ok(())
    }

    /// Notes that a pod ceases to name one node and begins to name another.
    pub fn note_move(&mut self, from: Option<Slot>, to: Option<Slot>) {
        if let Some(to) = to {
            self.node(to).pods += 1;
        }
        if let Some(from) = from {
            self.node(from).pods -= 1;
        }
    }

    fn node(&mut self, slot: Slot) -> &mut NodePods {
        while self.nodes.len() <= slot.index() {
            self.nodes.push(NodePods::default());
        }
        self.nodes.get_mut(slot.index())
    }
}
