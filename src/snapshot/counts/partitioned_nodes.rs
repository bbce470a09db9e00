//! The nodes of a state and their partitions that are in use. They change together, and copies
//! share them together.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::partition::{self, Partition};
use super::partition_in_use::PartitionInUse;
use super::partitions::PartitionsInUse;
use super::topology::Topology;
use super::upkeep::Upkeep;
use crate::snapshot::budget::Budget;
use crate::snapshot::objects::nodes::Nodes;

/// Nodes, and the partitions of them that are in use. Decisions add partitions, which change no
/// answer.
#[derive(Debug, Default)]
pub struct PartitionedNodes {
    nodes: Nodes,
    partitions: ArcSwap<PartitionsInUse>,
}

/// The most that following a batch of nodes may cost for all partitions, in units;
/// about 10 ms. Partitions that cost more than their share are dropped first.
const MAX_FOLLOWING: usize = 2_000_000;

/// The number of changed nodes in a batch that are always followed. With more, partitions are
/// dropped once a quarter of all nodes changed.
const MIN_UPHEAVAL: usize = 64;

/// The cost of finding the domain of a node, in units.
const UNITS_PER_DOMAIN: usize = 5;

/// The number of partitions that share the allowed cost of following.
const SHARES: usize = 64;

impl Clone for PartitionedNodes {
    fn clone(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            partitions: ArcSwap::new(self.partitions.load_full()),
        }
    }
}

impl PartitionedNodes {
    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The nodes, to change them; call [`Self::follow`] afterwards.
    pub fn nodes_mut(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    /// Brings the partitions up to date after a run of changes.
    pub fn follow(&mut self) {
        let changed = self.nodes.take_changed();
        if changed.is_empty() || self.partitions.load().is_empty() {
            return;
        }
        let mut partitions = PartitionsInUse::default();
        if changed.len() <= MIN_UPHEAVAL.max(self.nodes.len() / 4) {
            partitions.clone_from(&self.partitions.load());
            let most = MAX_FOLLOWING / changed.len();
            if partitions.units_per_node() > most {
                partitions.drop_costly(most / SHARES);
            }
            partitions.update(&changed, |slot| self.nodes.get(slot));
        }
        self.partitions.store(Arc::new(partitions));
    }

    /// The partition of a key, made if needed and if the budget allows it, and cached if there is
    /// room.
    pub fn in_use(
        &self,
        key: &partition::Key,
        upkeep: &Upkeep,
        budget: &Budget<'_>,
    ) -> Option<PartitionInUse> {
        loop {
            let known = self.partitions.load_full();
            if let Some(in_use) = known.find(key) {
                return Some(in_use);
            }
            let new = self.partition(key, &known, budget)?;
            drop(known);
            let mut inserted = None;
            self.partitions.rcu(|partitions| {
                let mut partitions = PartitionsInUse::clone(partitions);
                inserted = partitions.insert(&new, |bytes| upkeep.has_partition_room(bytes));
                upkeep.note_partitions(partitions.memory_bytes());
                partitions
            });
            if inserted.is_some() {
                return inserted;
            }
        }
    }

    /// Checks all nodes for a key.
    fn partition(
        &self,
        key: &partition::Key,
        known: &PartitionsInUse,
        budget: &Budget<'_>,
    ) -> Option<PartitionInUse> {
        let topology = match known.topology(&key.topology) {
            Some(topology) => Arc::clone(topology),
            None => {
                if !budget.takes(self.nodes.len().saturating_mul(UNITS_PER_DOMAIN)) {
                    return None;
                }
                Arc::new(Topology::of(&key.topology, &self.nodes))
            }
        };
        if !budget.affords(Partition::units(key, self.nodes.len())) {
            return None;
        }
        let partition = Partition::of(key.clone(), &topology, &self.nodes, budget)?;
        Some(PartitionInUse {
            partition: Arc::new(partition),
            topology,
        })
    }

    /// The partitions in use.
    pub fn partitions(&self) -> Arc<PartitionsInUse> {
        self.partitions.load_full()
    }

    /// Drops the partitions that were last used before a time, and more while memory is short.
    pub fn drop_idle_partitions(&self, since: u64, upkeep: &Upkeep) {
        let is_full = upkeep.is_process_full();
        self.partitions.rcu(|partitions| {
            let mut partitions = PartitionsInUse::clone(partitions);
            partitions.drop_idle(since);
            if is_full {
                partitions.drop_half();
            }
            upkeep.note_partitions(partitions.memory_bytes());
            partitions
        });
    }
}
