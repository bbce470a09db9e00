//! The nodes of a state and their partitions that are in use. They change together, and copies
//! share them together.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::partition::{self, Partition};
use super::partition_in_use::PartitionInUse;
use super::partitions::PartitionsInUse;
use super::topology::Topology;
use super::upkeep::Upkeep;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::nodes::Nodes;

/// Nodes, and the partitions of them that are in use. Decisions add partitions, which change no
/// answer.
#[derive(Debug, Default)]
pub struct PartitionedNodes {
    nodes: Nodes,
    partitions: ArcSwap<PartitionsInUse>,
}

/// The most steps in which all partitions follow a batch of nodes; about 10 ms. With more, all are
/// made again when they are asked for.
const MAX_FOLLOWING: usize = 500_000;

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
        if self.partitions.load().steps_per_node() <= MAX_FOLLOWING / changed.len() {
            partitions.clone_from(&self.partitions.load());
            partitions.limit(self.nodes.slot_count());
            partitions.update(&changed, |slot| self.nodes.get(slot));
        }
        self.partitions.store(Arc::new(partitions));
    }

    /// The partition of a key, made if needed, and cached if there is room.
    pub fn in_use(
        &self,
        key: &partition::Key,
        upkeep: &Upkeep,
        deadline: &Deadline<'_>,
    ) -> Result<PartitionInUse, Stopped> {
        loop {
            let known = self.partitions.load_full();
            if let Some(in_use) = known.find(key) {
                return Ok(in_use);
            }
            let new = self.partition(key, &known, deadline)?;
            drop(known);
            let mut inserted = None;
            self.partitions.rcu(|partitions| {
                let mut partitions = PartitionsInUse::clone(partitions);
                inserted = partitions.insert(&new, upkeep.has_memory());
                partitions
            });
            if let Some(inserted) = inserted {
                return Ok(inserted);
            }
        }
    }

    /// Checks all nodes for a key.
    fn partition(
        &self,
        key: &partition::Key,
        known: &PartitionsInUse,
        deadline: &Deadline<'_>,
    ) -> Result<PartitionInUse, Stopped> {
        let topology = match known.topology(&key.topology) {
            Some(topology) => Arc::clone(topology),
            None => {
                deadline.step(self.nodes.len())?;
                Arc::new(Topology::of(&key.topology, &self.nodes))
            }
        };
        let partition = Partition::of(key.clone(), &topology, &self.nodes, deadline)?;
        Ok(PartitionInUse {
            partition: Arc::new(partition),
            topology,
        })
    }

    /// The partitions in use.
    pub fn partitions(&self) -> Arc<PartitionsInUse> {
        self.partitions.load_full()
    }

    /// Drops the partitions that were last used before a time, and more while memory is short.
    pub fn drop_idle_partitions(&self, since: u64, is_short: bool) {
        self.partitions.rcu(|partitions| {
            let mut partitions = PartitionsInUse::clone(partitions);
            partitions.drop_idle(since);
            if is_short {
                partitions.drop_half();
            }
            partitions
        });
    }
}
