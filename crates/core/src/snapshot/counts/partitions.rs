//! The topologies and partitions of the nodes of one revision, shared by all namespaces. Every
//! change of a node updates them.

use std::collections::HashSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::partition::{self, Partition};
use super::partition_in_use::PartitionInUse;
use super::topology::{DomainKey, Topology};
use super::usage::LastUse;
use crate::snapshot::objects::node::NodeRef;
use crate::snapshot::objects::slots::Slot;

/// The most partitions that are cached.
const MAX_PARTITIONS: usize = 1_024;

/// The most places of nodes in all partitions: each takes five bytes, and a change of a node copies
/// all of them.
const MAX_PLACES: usize = 50_000_000;

/// The topologies and partitions in use.
#[derive(Debug, Clone, Default)]
pub struct PartitionsInUse {
    topologies: HashMap<DomainKey, Arc<Topology>>,
    by_key: HashMap<Arc<partition::Key>, CachedPartition>,
}

#[derive(Debug, Clone)]
struct CachedPartition {
    partition: Arc<Partition>,
    last_use: Arc<LastUse>,
}

impl PartitionsInUse {
    /// A partition in use, if there is one, used once more.
    pub fn find(&self, key: &partition::Key) -> Option<PartitionInUse> {
        let cached = self.by_key.get(key)?;
        cached.last_use.touch();
        Some(self.in_use(cached))
    }

    fn in_use(&self, cached: &CachedPartition) -> PartitionInUse {
        let key = cached.partition.key();
        PartitionInUse {
            partition: Arc::clone(&cached.partition),
            topology: Arc::clone(&self.topologies[&key.topology]),
        }
    }

    /// All partitions.
    pub fn all(&self) -> impl Iterator<Item = PartitionInUse> {
        self.by_key.values().map(|cached| self.in_use(cached))
    }

    /// The topology of a key, if it is in use.
    pub fn topology(&self, key: &DomainKey) -> Option<&Arc<Topology>> {
        self.topologies.get(key)
    }

    /// Adds a partition of a topology if there is memory; the ones unused for longest make room where
    /// there are too many. Returns the partition with its key, which is another one if there is one.
    /// `None` when another topology has replaced this one.
    pub fn insert(&mut self, new: &PartitionInUse, has_memory: bool) -> Option<PartitionInUse> {
        let key = new.partition.key();
        if let Some(in_use) = self.find(key) {
            return Some(in_use);
        }
        let known = self.topologies.get(&key.topology);
        if known.is_some_and(|known| !Arc::ptr_eq(known, &new.topology)) {
            return None;
        }
        if !has_memory {
            return Some(new.clone());
        }
        let cached = CachedPartition {
            partition: Arc::clone(&new.partition),
            last_use: Arc::new(LastUse::now()),
        };
        let topology = Arc::clone(&new.topology);
        self.topologies.insert(key.topology.clone(), topology);
        self.by_key.insert(Arc::clone(key), cached);
        self.limit(new.partition.slots());
        Some(new.clone())
    }

    /// Drops the partitions unused for longest while there are too many for this many nodes.
    pub fn limit(&mut self, nodes: usize) {
        let most = MAX_PARTITIONS.min(MAX_PLACES / nodes.max(1)).max(1);
        while self.by_key.len() > most {
            self.drop_least_used();
        }
    }

    fn drop_least_used(&mut self) {
        let times = self.by_key.values().map(|it| it.last_use.time());
        if let Some(oldest) = times.min() {
            let mut gone = false;
            self.retain(|cached| {
                let goes = !gone && cached.last_use.time() == oldest;
                gone |= goes;
                !goes
            });
        }
    }

    /// Returns the number of steps in which all partitions follow one node.
    pub fn steps_per_node(&self) -> usize {
        let keys = self.by_key.keys();
        keys.map(|key| key.eligibility.steps_per_node()).sum()
    }

    /// Follows changes of nodes; `node` returns the nodes after them. A partition whose nodes move
    /// between domains gets another number.
    pub fn update<'n>(&mut self, changed: &[Slot], node: impl Fn(Slot) -> Option<NodeRef<'n>>) {
        let changed: Vec<_> = changed.iter().map(|slot| (*slot, node(*slot))).collect();
        for topology in self.topologies.values_mut() {
            let topology = Arc::make_mut(topology);
            for (slot, node) in &changed {
                topology.update(*slot, *node);
            }
        }
        // The numbers of values that no node has any more would pile up.
        self.topologies
            .retain(|_, topology| !topology.is_overgrown());
        let topologies = &self.topologies;
        self.by_key.retain(|key, cached| {
            let Some(topology) = topologies.get(&key.topology) else {
                return false;
            };
            let partition = Arc::make_mut(&mut cached.partition);
            partition.update(&changed, topology);
            true
        });
    }

    /// Returns the number of partitions.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns whether there are no partitions.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Drops partitions that were last used before a time.
    pub fn drop_idle(&mut self, since: u64) {
        self.retain(|cached| cached.last_use.time() >= since);
    }

    /// Drops the half that was unused for longest.
    pub fn drop_half(&mut self) {
        let mut times: Vec<u64> = self.by_key.values().map(|it| it.last_use.time()).collect();
        if times.is_empty() {
            return;
        }
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.retain(|cached| cached.last_use.time() > median);
    }

    fn retain(&mut self, mut stays: impl FnMut(&CachedPartition) -> bool) {
        self.by_key.retain(|_, cached| stays(cached));
        let used: HashSet<&DomainKey> = self.by_key.keys().map(|key| &key.topology).collect();
        self.topologies.retain(|key, _| used.contains(key));
    }
}
