//! The requests of the pods of all namespaces on each node, and their terms about other pods.

use std::sync::Arc;

use super::blocks::Blocks;
use super::pod_terms::{OwnedTerms, TermTable};
use super::slots::Slot;
use super::storage_use::{PodUse, StorageUse};
use crate::account::heap::OnHeap;
use crate::matching::{Requested, Requests};

/// The number of nodes in a block: decisions read copies, and a change of a node then copies its
/// block.
const BLOCK: usize = 64;

/// The requests of the pods on each node, by slot. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct RequestedTable {
    nodes: Blocks<NodePods, BLOCK>,
    /// The bytes of the nodes on the heap.
    heap_bytes: usize,
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
}

/// Pods that come to nodes and leave them.
#[derive(Debug, Default)]
pub struct Shifts {
    /// Pods that begin or cease to take room on a node, in order.
    room: Vec<Shift>,
    /// Pods that begin (true) or cease to name a node, in order.
    names: Vec<(Slot, bool)>,
}

#[derive(Debug)]
struct Shift {
    slot: Slot,
    requests: Option<Arc<Requests>>,
    keeps_away: Option<OwnedTerms>,
    scored: Option<OwnedTerms>,
    storage: Option<PodUse>,
    comes: bool,
}

impl Shifts {
    /// Records that a pod comes to a node with its requests, or leaves it.
    pub fn note(
        &mut self,
        slot: Slot,
        requests: Option<&Arc<Requests>>,
        [keeps_away, scored]: [Option<OwnedTerms>; 2],
        storage: Option<PodUse>,
        comes: bool,
    ) {
        self.room.push(Shift {
            slot,
            requests: requests.cloned(),
            keeps_away,
            scored,
            storage,
            comes,
        });
    }

    /// Records that a pod ceases to name one node and begins to name another.
    pub fn note_move(&mut self, from: Option<Slot>, to: Option<Slot>) {
        if from != to {
            self.names.extend(to.map(|slot| (slot, true)));
            self.names.extend(from.map(|slot| (slot, false)));
        }
    }

    /// Returns whether pods come with terms about others or with storage. Decisions read those even
    /// where no node reports its resources.
    pub fn are_looked_at(&self) -> bool {
        let mut comers = self.room.iter().filter(|shift| shift.comes);
        comers.any(|shift| {
            shift.keeps_away.is_some() || shift.scored.is_some() || shift.storage.is_some()
        })
    }

    /// Applies the shifts to a table, which is copied if it is shared.
    pub fn apply_to(&self, table: &mut Arc<RequestedTable>) {
        if !(self.room.is_empty() && self.names.is_empty()) {
            Arc::make_mut(table).apply(self);
        }
    }
}

impl RequestedTable {
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

    fn apply(&mut self, shifts: &Shifts) {
        for (slot, comes) in &shifts.names {
            let pods = &mut self.node(*slot).pods;
            *pods = match comes {
                true => *pods + 1,
                false => *pods - 1,
            };
        }
        for shift in &shifts.room {
            if let Some(pod) = &shift.keeps_away {
                Arc::make_mut(&mut self.anti_affinity).shift(shift.slot, pod, shift.comes);
            }
            if let Some(pod) = &shift.scored {
                Arc::make_mut(&mut self.scored_terms).shift(shift.slot, pod, shift.comes);
            }
            if let Some(used) = &shift.storage {
                Arc::make_mut(&mut self.storage).shift(shift.slot, used, shift.comes);
            }
            let node = &mut self.node(shift.slot).requested;
            let requests = shift.requests.as_deref();
            // A pod that requests nothing changes nothing on the heap.
            let measure = |node: &Requested| requests.map_or(0, |_| node.heap_bytes());
            let before = measure(node);
            match shift.comes {
                true => node.add(requests),
                false => node.remove(requests),
            }
            let after = measure(node);
            self.heap_bytes = self.heap_bytes - before + after;
        }
    }

    fn node(&mut self, slot: Slot) -> &mut NodePods {
        while self.nodes.len() <= slot.index() {
            self.nodes.push(NodePods::default());
        }
        self.nodes.get_mut(slot.index())
    }

    /// Returns the estimated bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        let nodes = self.nodes.memory_bytes() + self.heap_bytes;
        let terms = self.anti_affinity.memory_bytes() + self.scored_terms.memory_bytes();
        nodes + terms + self.storage.memory_bytes()
    }
}
