//! What the pods of all namespaces request of each node, and the terms by which they
//! keep others away.

use std::sync::Arc;

use super::anti_affinity::{AntiAffinityTable, KeepsAway};
use super::blocks::Blocks;
use super::slots::Slot;
use super::storage_use::{PodUse, StorageUse};
use crate::matching::{Requested, Requests};

/// Nodes are kept in blocks of so many: decisions read copies, and who changes
/// a node then copies its block.
const BLOCK: usize = 64;

/// What pods request of each node, by slot. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct RequestedTable {
    nodes: Blocks<Requested, BLOCK>,
    /// What the nodes have on the heap.
    heap_bytes: usize,
    anti_affinity: Arc<AntiAffinityTable>,
    storage: Arc<StorageUse>,
}

/// Pods that come to nodes and go from them, in order.
#[derive(Debug, Default)]
pub struct Shifts(Vec<Shift>);

#[derive(Debug)]
struct Shift {
    slot: Slot,
    requests: Option<Arc<Requests>>,
    keeps_away: Option<KeepsAway>,
    storage: Option<PodUse>,
    comes: bool,
}

impl Shifts {
    /// A pod comes to a node and takes what it requests, or goes from it.
    pub fn note(
        &mut self,
        slot: Slot,
        requests: Option<&Arc<Requests>>,
        keeps_away: Option<KeepsAway>,
        storage: Option<PodUse>,
        comes: bool,
    ) {
        self.0.push(Shift {
            slot,
            requests: requests.cloned(),
            keeps_away,
            storage,
            comes,
        });
    }

    /// Returns whether pods come that keep others away or use storage, at which decisions look
    /// even where no node says what it has.
    pub fn are_looked_at(&self) -> bool {
        let mut comers = self.0.iter().filter(|shift| shift.comes);
        comers.any(|shift| shift.keeps_away.is_some() || shift.storage.is_some())
    }

    /// Has them come and go in a table, which is copied if it is shared.
    pub fn apply_to(&self, table: &mut Arc<RequestedTable>) {
        if !self.0.is_empty() {
            Arc::make_mut(table).apply(self);
        }
    }
}

impl RequestedTable {
    /// Returns what pods request of a node.
    pub fn get(&self, slot: Slot) -> Option<&Requested> {
        let index = slot.index();
        (index < self.nodes.len()).then(|| &self.nodes[index])
    }

    /// The terms by which pods keep others away.
    pub fn anti_affinity(&self) -> &AntiAffinityTable {
        &self.anti_affinity
    }

    /// Returns what storage pods use.
    pub fn storage_use(&self) -> &StorageUse {
        &self.storage
    }

    fn apply(&mut self, shifts: &Shifts) {
        for shift in &shifts.0 {
            if let Some(pod) = &shift.keeps_away {
                Arc::make_mut(&mut self.anti_affinity).shift(shift.slot, pod, shift.comes);
            }
            if let Some(used) = &shift.storage {
                Arc::make_mut(&mut self.storage).shift(shift.slot, used, shift.comes);
            }
            while self.nodes.len() <= shift.slot.index() {
                self.nodes.push(Requested::default());
            }
            let node = self.nodes.get_mut(shift.slot.index());
            let requests = shift.requests.as_deref();
            // A pod that requests nothing changes nothing on the heap.
            let measure = |node: &Requested| requests.map_or(0, |_| node.heap_bytes());
            let before = measure(node);
            match shift.comes {
                true => node.add(requests),
                false => node.remove(requests),
            }
            self.heap_bytes = self.heap_bytes - before + measure(node);
        }
    }

    /// As [`Self::memory_bytes`], with every node measured anew.
    pub fn measured_bytes(&self) -> usize {
        let nodes = self.nodes.iter().map(Requested::heap_bytes);
        let (table, storage) = (&self.anti_affinity, &self.storage);
        self.memory_bytes() - self.heap_bytes - table.memory_bytes() - storage.memory_bytes()
            + nodes.sum::<usize>()
            + table.measured_bytes()
            + storage.measured_bytes()
    }

    /// Returns what it takes in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let nodes = self.nodes.memory_bytes() + self.heap_bytes;
        nodes + self.anti_affinity.memory_bytes() + self.storage.memory_bytes()
    }
}
