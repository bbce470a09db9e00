//! The topologies and partitions in use: ways of looking at the nodes, shared
//! by all namespaces and kept up to date by every change of a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use slab::Slab;

use super::node::NodeRef;
use super::nodes::Nodes;
use super::partition::{self, Move, Partition};
use super::slots::Slot;
use super::topology::{self, Topology};

/// The number of a partition. Its serial part is never given out twice, so
/// that one that was dropped is not mistaken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionId {
    index: usize,
    serial: u64,
}

/// A partition and the topology that it is of.
#[derive(Debug, Clone)]
pub struct Lens {
    /// The number of the partition.
    pub id: PartitionId,
    /// The eligible nodes, parted into domains.
    pub partition: Arc<Partition>,
    /// The domains of all nodes, eligible or not.
    pub topology: Arc<Topology>,
}

/// What moved in one partition.
#[derive(Debug)]
pub struct Moves {
    /// The partition.
    pub id: PartitionId,
    /// The nodes that moved, in order.
    pub moves: Vec<Move>,
    /// How many domains there are after that.
    pub domain_count: usize,
}

/// The topologies and partitions in use.
///
/// Whoever reads holds a clone of an `Arc` for as long as nodes cannot
/// change, so a change of a node finds each of them unshared.
#[derive(Debug, Default)]
pub struct Lenses {
    topologies: HashMap<topology::Key, usize>,
    topology: Slab<Arc<Topology>>,
    by_key: HashMap<Arc<partition::Key>, usize>,
    entries: Slab<Entry>,
    next_serial: u64,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    key: Arc<partition::Key>,
    topology: usize,
    partition: Arc<Partition>,
    last_used: AtomicU64,
    /// Whether it was found again after it was made.
    reused: AtomicBool,
}

impl Entry {
    fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// What is kept longer is worth more: what was used more than once, then
    /// what was used last.
    fn worth(&self) -> (bool, u64) {
        (self.reused.load(Ordering::Relaxed), self.last_used())
    }
}

impl Lenses {
    /// A partition that is in use, used once more at tick `now`.
    pub fn find(&self, key: &partition::Key, now: u64) -> Option<Lens> {
        let index = *self.by_key.get(key)?;
        let entry = &self.entries[index];
        if entry.last_used.load(Ordering::Relaxed) != now {
            entry.last_used.store(now, Ordering::Relaxed);
        }
        if !entry.reused.load(Ordering::Relaxed) {
            entry.reused.store(true, Ordering::Relaxed);
        }
        Some(self.lens(index))
    }

    fn lens(&self, index: usize) -> Lens {
        let entry = &self.entries[index];
        Lens {
            id: PartitionId {
                index,
                serial: entry.serial,
            },
            partition: Arc::clone(&entry.partition),
            topology: Arc::clone(&self.topology[entry.topology]),
        }
    }

    /// A copy of all of them, shared with nobody.
    pub fn copy(&self) -> Vec<Lens> {
        let topologies: HashMap<usize, Arc<Topology>> = self
            .topology
            .iter()
            .map(|(index, topology)| (index, Arc::new(Topology::clone(topology))))
            .collect();
        let lens = |(index, entry): (usize, &Entry)| Lens {
            id: PartitionId {
                index,
                serial: entry.serial,
            },
            partition: Arc::new(Partition::clone(&entry.partition)),
            topology: Arc::clone(&topologies[&entry.topology]),
        };
        self.entries.iter().map(lens).collect()
    }

    /// A partition by number, if it is still in use.
    pub fn get(&self, id: PartitionId) -> Option<&Partition> {
        let entry = self.entries.get(id.index)?;
        (entry.serial == id.serial).then_some(&*entry.partition)
    }

    /// A partition, made if need be.
    pub fn insert(&mut self, key: &partition::Key, nodes: &Nodes, now: u64) -> Lens {
        if let Some(lens) = self.find(key, now) {
            return lens;
        }
        let slab = &mut self.topology;
        let make = || slab.insert(Arc::new(Topology::of(&key.topology, nodes)));
        let topology = *self
            .topologies
            .entry(key.topology.clone())
            .or_insert_with(make);
        let partition = Partition::of(key.clone(), &self.topology[topology], nodes);
        self.next_serial += 1;
        let key = Arc::new(key.clone());
        let index = self.entries.insert(Entry {
            serial: self.next_serial,
            key: Arc::clone(&key),
            topology,
            partition: Arc::new(partition),
            last_used: AtomicU64::new(now),
            reused: AtomicBool::new(false),
        });
        self.by_key.insert(key, index);
        self.lens(index)
    }

    /// Follows changes of nodes, of which `node` tells already; what moved in
    /// each partition.
    pub fn update<'n>(
        &mut self,
        changed: &[Slot],
        node: impl Fn(Slot) -> Option<NodeRef<'n>>,
    ) -> Vec<Moves> {
        let mut moves: HashMap<usize, Moves> = HashMap::new();
        for slot in changed {
            let node = node(*slot);
            for (_, topology) in &mut self.topology {
                unshared(topology).update(*slot, node);
            }
            for (index, entry) in &mut self.entries {
                let topology = &self.topology[entry.topology];
                let moved = unshared(&mut entry.partition).update(*slot, node, topology);
                if let Some(moved) = moved {
                    let id = PartitionId {
                        index,
                        serial: entry.serial,
                    };
                    let of = moves.entry(index).or_insert_with(|| Moves {
                        id,
                        moves: Vec::new(),
                        domain_count: 0,
                    });
                    of.moves.push(moved);
                    of.domain_count = entry.partition.domain_count();
                }
            }
        }
        // Views that follow these are of no use any more, and of no harm.
        let topology = &self.topology;
        let grown: Vec<usize> = topology
            .iter()
            .filter(|(_, topology)| topology.is_overgrown())
            .map(|(index, _)| index)
            .collect();
        if !grown.is_empty() {
            self.retain(|entry| !grown.contains(&entry.topology));
        }
        moves.into_values().collect()
    }

    /// How many partitions there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops all of them.
    pub fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// Drops partitions that were last used before tick `since`.
    pub fn drop_idle(&mut self, since: u64) {
        self.retain(|entry| entry.last_used() >= since);
    }

    /// Drops the half that is least worth keeping: what was used only once, then
    /// what was not used for longest.
    pub fn drop_half(&mut self) {
        let entries = self.entries.iter();
        let mut uses: Vec<_> = entries.map(|(_, entry)| entry.worth()).collect();
        let (middle, mut spared) = (uses.len() / 2, uses.len().div_ceil(2));
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        // Of those worth the same as the middle one, some have to go.
        self.retain(|entry| {
            let stays = entry.worth() >= median && spared > 0;
            spared -= usize::from(stays);
            stays
        });
    }

    fn retain(&mut self, mut stays: impl FnMut(&Entry) -> bool) {
        self.entries.retain(|_, entry| stays(entry));
        let entries = &self.entries;
        let serials = |index: &usize, key: &Arc<partition::Key>| {
            entries
                .get(*index)
                .is_some_and(|entry| Arc::ptr_eq(&entry.key, key))
        };
        self.by_key.retain(|key, index| serials(index, key));
        let used = |index: usize| entries.iter().any(|(_, entry)| entry.topology == index);
        self.topologies.retain(|_, index| used(*index));
        self.topology.retain(|index, _| used(index));
    }

    /// The keys of all partitions.
    pub fn key(&self, id: PartitionId) -> Option<&Arc<partition::Key>> {
        let entry = self.entries.get(id.index)?;
        (entry.serial == id.serial).then_some(&entry.key)
    }

    /// What they take in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let topologies: usize = self.topology.iter().map(|(_, t)| t.memory_bytes()).sum();
        let partitions = self
            .entries
            .iter()
            .map(|(_, entry)| entry.partition.memory_bytes());
        topologies + partitions.sum::<usize>()
    }
}

/// The only reference to a shared value.
pub(super) fn unshared<T>(shared: &mut Arc<T>) -> &mut T {
    Arc::get_mut(shared).expect("nobody reads what is locked for a change")
}
