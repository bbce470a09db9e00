//! The topologies and partitions of the nodes of one revision, shared by all namespaces. Every
//! change of a node updates them. Views and partitions are dropped by the order in which they were
//! used: the ones unused for longest first.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::partition;
use super::partition::{Partition, PartitionInUse};
use super::topology::{DomainKey, Topology};
use crate::account::{Account, Purpose};
use crate::snapshot::counters;
use crate::snapshot::counters::SnapshotCounters;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::nodes::{NodeRef, Nodes};
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

    /// Drops the partitions unused for longest where there are too many for this many nodes.
    pub fn limit(&mut self, nodes: usize) {
        let most = MAX_PARTITIONS.min(MAX_PLACES / nodes.max(1)).max(1);
        self.drop_unused(self.by_key.len().saturating_sub(most));
    }

    /// Drops this many partitions: those unused for longest.
    pub fn drop_unused(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let times = self.by_key.values().map(|it| it.last_use.time());
        let mut goes = unused_for_longest(times.collect(), count);
        self.retain(|cached| !goes(cached.last_use.time()));
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

    fn retain(&mut self, mut stays: impl FnMut(&CachedPartition) -> bool) {
        self.by_key.retain(|_, cached| stays(cached));
        let used: HashSet<&DomainKey> = self.by_key.keys().map(|key| &key.topology).collect();
        self.topologies.retain(|key, _| used.contains(key));
    }
}

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
                partitions.drop_unused(partitions.len().div_ceil(2));
            }
            partitions
        });
    }
}

/// Counts the views, partitions and sweeps of the process: a clock that is fine enough to order
/// uses of views and partitions.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that is given out once.
pub fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The time of the last use of a view or a partition.
#[derive(Debug)]
pub struct LastUse(AtomicU64);

impl LastUse {
    /// The first use, after all uses so far.
    pub fn now() -> Self {
        Self(AtomicU64::new(next_number()))
    }

    /// Records a further use.
    pub fn touch(&self) {
        let now = NUMBERS.load(Ordering::Relaxed);
        // A store of the same value would still take the cache line away from other readers.
        if self.time() != now {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// The time: a larger number is later.
    pub fn time(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tells by the time of its last use whether something goes: this many of all that have these times,
/// those that were unused for longest.
pub fn unused_for_longest(mut times: Vec<u64>, count: usize) -> impl FnMut(u64) -> bool {
    let mut left = count.min(times.len());
    let limit = match left {
        0 => 0,
        _ => *times.select_nth_unstable(left - 1).1,
    };
    move |time| {
        let goes = left > 0 && time <= limit;
        left -= usize::from(goes);
        goes
    }
}

/// The most views of a snapshot.
const MAX_VIEWS: usize = 16_384;

/// The views and partitions of a snapshot, of all revisions that are read.
#[derive(Debug)]
pub struct Upkeep {
    account: Arc<Account>,
    view_count: AtomicUsize,
    /// The times of the last sweeps.
    sweeps: Mutex<VecDeque<u64>>,
    /// The counters of views that are built, cached and dropped.
    pub counters: Arc<SnapshotCounters>,
}

impl Upkeep {
    /// The upkeep of a snapshot whose process has this account.
    pub fn new(account: &Arc<Account>, counters: Arc<SnapshotCounters>) -> Self {
        Self {
            account: Arc::clone(account),
            view_count: AtomicUsize::new(0),
            sweeps: Mutex::default(),
            counters,
        }
    }

    /// The account of the process.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Records a sweep. Returns the time of the sweep before which views and partitions that were
    /// not used since are idle: `idle_ticks` sweeps ago.
    pub fn idle_since(&self, idle_ticks: u64) -> u64 {
        let mut sweeps = self.sweeps.lock();
        sweeps.push_back(next_number() + 1);
        let wanted =
            usize::try_from(idle_ticks).map_or(usize::MAX, |ticks| ticks.saturating_add(1));
        while sweeps.len() > wanted {
            sweeps.pop_front();
        }
        match sweeps.len() == wanted {
            true => sweeps[0],
            false => 0,
        }
    }

    /// Returns whether the process has memory for views and partitions.
    pub fn has_memory(&self) -> bool {
        self.account.has_room(Purpose::Cache, 0)
    }

    /// Returns the number of views.
    pub fn view_count(&self) -> usize {
        self.view_count.load(Ordering::Relaxed)
    }

    /// Returns whether one more view may be cached.
    pub fn has_view_room(&self) -> bool {
        self.view_count() < MAX_VIEWS && self.has_memory()
    }

    /// Records a view that is cached.
    pub(super) fn note_view(&self) {
        self.view_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a cached view is dropped.
    pub(super) fn forget_view(&self) {
        self.view_count.fetch_sub(1, Ordering::Relaxed);
        counters::add(&self.counters.views_dropped, 1);
    }
}
