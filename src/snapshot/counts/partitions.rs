//! The topologies and partitions in use, shared by all namespaces. Every change
//! of a node updates them.

use std::collections::HashSet;
use std::sync::Arc;

use hashbrown::HashMap;
use slab::Slab;

use super::discarded::Discarded;
use super::partition::{self, Move, Partition};
use super::partition_in_use::{PartitionId, PartitionInUse, next_serial, unused_serial};
use super::topology::{DomainKey, Topology};
use super::usage::{DecisionId, Usage};
use crate::snapshot::objects::node::NodeRef;
use crate::snapshot::objects::slots::Slot;

/// The nodes that moved in one partition.
#[derive(Debug)]
pub struct Moves {
    /// The partition.
    pub id: PartitionId,
    /// The nodes that moved, in order.
    pub moves: Vec<Move>,
    /// The number of domains after the moves.
    pub domain_count: usize,
}

/// The topologies and partitions in use.
///
/// A reader holds a clone of an `Arc`. A decision aside may hold it while nodes
/// change; the change then copies it first.
#[derive(Debug, Clone, Default)]
pub struct PartitionsInUse {
    topologies: HashMap<DomainKey, usize>,
    topology: Slab<Arc<Topology>>,
    by_key: HashMap<Arc<partition::Key>, usize>,
    entries: Slab<TrackedPartition>,
    /// The bytes of partitions, with their keys.
    bytes: usize,
}

#[derive(Debug, Clone)]
struct TrackedPartition {
    serial: u64,
    topology: usize,
    partition: Arc<Partition>,
    usage: Usage,
}

impl TrackedPartition {
    fn id(&self, index: usize) -> PartitionId {
        let serial = self.serial;
        PartitionId { index, serial }
    }
}

impl PartitionsInUse {
    /// A partition in use, if there is one, used once more at tick `now` by a decision.
    pub fn find(&self, key: &partition::Key, now: u64, by: DecisionId) -> Option<PartitionInUse> {
        let index = *self.by_key.get(key)?;
        self.entries[index].usage.touch(now, by);
        Some(self.in_use(index))
    }

    fn in_use(&self, index: usize) -> PartitionInUse {
        let entry = &self.entries[index];
        PartitionInUse {
            id: entry.id(index),
            partition: Arc::clone(&entry.partition),
            topology: Arc::clone(&self.topology[entry.topology]),
        }
    }

    /// All partitions, as they are at present.
    pub fn copy(&self) -> Vec<PartitionInUse> {
        let all = self.entries.iter();
        all.map(|(index, _)| self.in_use(index)).collect()
    }

    /// A partition by number with its topology, if it is still in use.
    pub fn numbered(&self, id: PartitionId) -> Option<PartitionInUse> {
        self.get(id)?;
        Some(self.in_use(id.index))
    }

    /// A partition by number, if it is still in use.
    pub fn get(&self, id: PartitionId) -> Option<&Partition> {
        let entry = self.entries.get(id.index)?;
        (entry.serial == id.serial).then_some(&*entry.partition)
    }

    /// The topology of a key, if it is in use.
    pub fn topology(&self, key: &DomainKey) -> Option<Arc<Topology>> {
        let index = self.topologies.get(key)?;
        Some(Arc::clone(&self.topology[*index]))
    }

    /// Inserts a partition of a topology, or finds the one with its key. `None` when another
    /// topology has replaced this one.
    pub fn insert(
        &mut self,
        topology: &Arc<Topology>,
        partition: &Arc<Partition>,
        now: u64,
        by: DecisionId,
    ) -> Option<PartitionInUse> {
        let key = partition.key();
        if let Some(in_use) = self.find(key, now, by) {
            return Some(in_use);
        }
        let slab = &mut self.topology;
        let index = *self
            .topologies
            .entry(key.topology.clone())
            .or_insert_with(|| slab.insert(Arc::clone(topology)));
        if !Arc::ptr_eq(&self.topology[index], topology) {
            return None;
        }
        self.bytes += partition.memory_bytes();
        let entry = self.entries.insert(TrackedPartition {
            serial: next_serial(),
            topology: index,
            partition: Arc::clone(partition),
            usage: Usage::new((now, by), unused_serial()),
        });
        self.by_key.insert(Arc::clone(key), entry);
        Some(self.in_use(entry))
    }

    /// Returns the number of steps in which all partitions follow one node.
    pub fn steps_per_node(&self) -> usize {
        let all = self.entries.iter();
        all.map(|(_, entry)| entry.partition.key().eligibility.steps_per_node())
            .sum()
    }

    /// Drops partitions that follow one node in more than `most` steps.
    pub fn drop_costly(&mut self, most: usize, discarded: &Discarded) {
        self.retain(discarded, |entry| {
            entry.partition.key().eligibility.steps_per_node() <= most
        });
    }

    /// Follows changes of nodes; `node` returns the nodes after them. Returns the moves in each
    /// partition.
    pub fn update<'n>(
        &mut self,
        changed: &[Slot],
        node: impl Fn(Slot) -> Option<NodeRef<'n>>,
        discarded: &Discarded,
    ) -> Vec<Moves> {
        let changed: Vec<_> = changed.iter().map(|slot| (*slot, node(*slot))).collect();
        for (_, topology) in &mut self.topology {
            let topology = Arc::make_mut(topology);
            for (slot, node) in &changed {
                topology.update(*slot, *node);
            }
        }
        let mut all = Vec::new();
        for (index, entry) in &mut self.entries {
            let topology = &self.topology[entry.topology];
            let partition = Arc::make_mut(&mut entry.partition);
            let update = |(slot, node): &_| partition.update(*slot, *node, topology);
            let moves: Vec<Move> = changed.iter().filter_map(update).collect();
            if !moves.is_empty() {
                let domain_count = partition.domain_count();
                all.push(Moves {
                    id: entry.id(index),
                    moves,
                    domain_count,
                });
            }
        }
        // Views of these partitions are useless afterwards, and harmless.
        let topologies = self.topology.iter();
        let grown = topologies.filter(|(_, topology)| topology.is_overgrown());
        let grown: Vec<usize> = grown.map(|(index, _)| index).collect();
        if !grown.is_empty() {
            self.retain(discarded, |entry| !grown.contains(&entry.topology));
        }
        self.bytes = self.partition_bytes();
        all
    }

    /// Returns the number of partitions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no partitions.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops all partitions.
    pub fn clear(&mut self, discarded: &Discarded) {
        self.retain(discarded, |_| false);
    }

    /// Drops partitions that were last used before tick `since`.
    pub fn drop_idle(&mut self, since: u64, discarded: &Discarded) {
        self.retain(discarded, |entry| entry.usage.last_used() >= since);
    }

    /// Drops the least useful half: first those used only once, then those not
    /// used for longest.
    pub fn drop_half(&mut self, discarded: &Discarded) {
        let entries = self.entries.iter();
        let mut uses: Vec<_> = entries.map(|(_, entry)| entry.usage.worth()).collect();
        if uses.is_empty() {
            return;
        }
        let (middle, mut spared) = (uses.len() / 2, uses.len().div_ceil(2));
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        // Some of the partitions with the median worth are dropped, too.
        spared -= uses.iter().filter(|worth| **worth > median).count();
        self.retain(discarded, |entry| {
            let stays = entry.usage.worth() == median && spared > 0;
            spared -= usize::from(stays);
            stays || entry.usage.worth() > median
        });
    }

    fn retain(&mut self, discarded: &Discarded, mut stays: impl FnMut(&TrackedPartition) -> bool) {
        let before = self.memory_bytes();
        let partitions = take_out(&mut self.entries, |_, entry| !stays(entry));
        let entries = &self.entries;
        self.by_key.retain(|key, index| {
            let entry = entries.get(*index);
            entry.is_some_and(|entry| Arc::ptr_eq(entry.partition.key(), key))
        });
        let used: HashSet<usize> = entries.iter().map(|(_, entry)| entry.topology).collect();
        self.topologies.retain(|_, index| used.contains(index));
        let topologies = take_out(&mut self.topology, |index, _| !used.contains(&index));
        self.bytes = self.partition_bytes();
        if partitions.is_empty() {
            return;
        }
        discarded.add((partitions, topologies), before - self.memory_bytes());
    }

    fn partition_bytes(&self) -> usize {
        let entries = self.entries.iter();
        entries
            .map(|(_, entry)| entry.partition.memory_bytes())
            .sum()
    }

    /// Returns the bytes of partitions and topologies in memory.
    pub fn memory_bytes(&self) -> usize {
        let topologies = self.topology.iter().map(|(_, t)| t.memory_bytes());
        topologies.sum::<usize>() + self.bytes
    }
}

/// Removes and returns the entries that leave.
fn take_out<T>(slab: &mut Slab<T>, mut leaves: impl FnMut(usize, &T) -> bool) -> Vec<T> {
    let leaving = slab.iter().filter(|(index, entry)| leaves(*index, entry));
    let leaving: Vec<usize> = leaving.map(|(index, _)| index).collect();
    leaving
        .into_iter()
        .map(|index| slab.remove(index))
        .collect()
}
