//! The nodes of a state and their partitions that are in use. They change together, and copies
//! share them together.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::discarded::Discarded;
use super::partition::{self, Partition};
use super::partition_in_use::PartitionInUse;
use super::partitions::{Moves, PartitionsInUse};
use super::topology::Topology;
use super::upkeep::Upkeep;
use super::usage::DecisionId;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::locks::write_between_reads;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::slots::Slot;

/// Nodes, and the partitions of them that are in use.
#[derive(Debug, Default)]
pub struct PartitionedNodes {
    nodes: Nodes,
    partitions: RwLock<PartitionsInUse>,
    /// The nodes that these were copied from, if following the changes since is cheaper than
    /// checking all nodes.
    base: Option<Base>,
}

/// Earlier nodes, and the nodes that differ from them.
#[derive(Debug)]
struct Base {
    nodes: Arc<PartitionedNodes>,
    changed: Vec<Slot>,
    /// The topologies of the earlier nodes, each with its successor.
    topologies: Mutex<Vec<(Arc<Topology>, Arc<Topology>)>>,
}

/// The most steps in which all partitions follow a batch of nodes; about 10 ms. Partitions that take
/// more than their share are dropped first.
const MAX_FOLLOWING: usize = 500_000;

/// The number of changed nodes in a batch that are always followed. With more, partitions are
/// dropped once a quarter of all nodes changed.
const MIN_UPHEAVAL: usize = 64;

/// The number of partitions that share the steps of following.
const SHARES: usize = 64;

/// The most partitions that are kept.
const MAX_PARTITIONS: usize = 4_096;

/// The change of the partitions with the nodes.
#[derive(Debug)]
pub enum Followed {
    /// The partitions are up to date; these nodes moved between domains.
    Moved(Vec<Moves>),
    /// Too much changed, so the partitions were dropped.
    Dropped,
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
    pub fn follow(&mut self, discarded: &Discarded) -> Followed {
        let changed = self.nodes.take_changed();
        let mut partitions = std::mem::take(self.partitions.get_mut());
        let followed = if partitions.is_empty() || changed.is_empty() {
            Followed::Moved(Vec::new())
        } else if changed.len() > MIN_UPHEAVAL.max(self.nodes.len() / 4) {
            partitions.clear(discarded);
            Followed::Dropped
        } else {
            let most = MAX_FOLLOWING / changed.len();
            if partitions.steps_per_node() > most {
                partitions.drop_costly(most / SHARES, discarded);
            }
            let node = |slot| self.nodes.get(slot);
            Followed::Moved(partitions.update(&changed, node, discarded))
        };
        *self.partitions.get_mut() = partitions;
        followed
    }

    /// The partition of a key, made if needed, and kept if there is room.
    pub fn in_use(
        &self,
        key: &partition::Key,
        upkeep: &Upkeep,
        by: DecisionId,
        deadline: &Deadline<'_>,
    ) -> Result<PartitionInUse, Stopped> {
        let now = upkeep.tick();
        loop {
            if let Some(in_use) = self.partitions.read().find(key, now, by) {
                return Ok(in_use);
            }
            // The partition is made without a lock, so that other decisions can look up theirs.
            let (topology, partition) = match &self.base {
                Some(base) => self.follow_base(base, key, (upkeep, by), deadline)?,
                None => self.look(key, deadline)?,
            };
            let mut partitions = write_between_reads(&self.partitions);
            let bytes = partition.memory_bytes();
            // Partitions of an imagined copy do not count, because they are dropped with the
            // decision.
            let counts = self.base.is_none();
            if partitions.len() >= MAX_PARTITIONS || !upkeep.has_partition_room(bytes) {
                partitions.drop_half(&upkeep.discarded);
                if counts {
                    upkeep.note_partitions(partitions.memory_bytes());
                }
            }
            if !upkeep.has_partition_room(bytes) {
                return Ok(PartitionInUse::unkept(topology, partition));
            }
            if let Some(in_use) = partitions.insert(&topology, &partition, now, by) {
                if counts {
                    upkeep.note_partitions(partitions.memory_bytes());
                }
                return Ok(in_use);
            }
        }
    }

    /// Checks all nodes for a key.
    fn look(
        &self,
        key: &partition::Key,
        deadline: &Deadline<'_>,
    ) -> Result<(Arc<Topology>, Arc<Partition>), Stopped> {
        let known = self.partitions.read().topology(&key.topology);
        let topology = match known {
            Some(topology) => topology,
            None => {
                deadline.step(self.nodes.len())?;
                Arc::new(Topology::of(&key.topology, &self.nodes))
            }
        };
        let partition = Partition::of(key.clone(), &topology, &self.nodes, deadline)?;
        Ok((topology, Arc::new(partition)))
    }

    /// Returns the base's partition of a key after the changes of the nodes.
    fn follow_base(
        &self,
        base: &Base,
        key: &partition::Key,
        (upkeep, by): (&Upkeep, DecisionId),
        deadline: &Deadline<'_>,
    ) -> Result<(Arc<Topology>, Arc<Partition>), Stopped> {
        let in_use = base.nodes.in_use(key, upkeep, by, deadline)?;
        let steps = base.changed.len() * key.eligibility.steps_per_node();
        deadline.step(self.nodes.slot_count() + steps)?;
        let mut topologies = base.topologies.lock();
        let known = topologies
            .iter()
            .find(|(before, _)| Arc::ptr_eq(before, &in_use.topology));
        let topology = match known {
            Some((_, after)) => Arc::clone(after),
            None if self.partitions.read().topology(&key.topology).is_some() => {
                // Another topology has replaced this one in the base.
                drop(topologies);
                return self.look(key, deadline);
            }
            None => {
                let mut topology = Topology::clone(&in_use.topology);
                for slot in &base.changed {
                    topology.update(*slot, self.nodes.get(*slot));
                }
                let topology = Arc::new(topology);
                topologies.push((in_use.topology, Arc::clone(&topology)));
                topology
            }
        };
        let mut partition = Partition::clone(&in_use.partition);
        for slot in &base.changed {
            partition.update(*slot, self.nodes.get(*slot), &topology);
        }
        Ok((topology, Arc::new(partition)))
    }

    /// Returns a mutable reference to the nodes and the partitions. Other references keep the old
    /// ones.
    pub fn to_change(this: &mut Arc<Self>) -> &mut Self {
        if Arc::get_mut(this).is_none() {
            let partitions = std::mem::take(&mut *this.partitions.write());
            *this = Arc::new(Self {
                nodes: this.nodes.clone(),
                partitions: RwLock::new(partitions),
                base: None,
            });
        }
        Arc::get_mut(this).expect("it is shared with nobody, or was just made")
    }

    /// A copy with the partitions, which can be changed while the original is read.
    pub fn fork(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            partitions: RwLock::new(self.partitions.read().clone()),
            base: None,
        }
    }

    /// A copy whose nodes are changed by `change`, for one decision: its slots
    /// are never freed.
    pub fn imagined(this: &Arc<Self>, change: impl FnOnce(&mut Nodes)) -> Self {
        let mut nodes = this.nodes.clone();
        change(&mut nodes);
        nodes.settle(0);
        let changed = nodes.take_changed();
        let follows = changed.len() <= MIN_UPHEAVAL.max(nodes.len() / 4);
        Self {
            nodes,
            partitions: RwLock::default(),
            base: follows.then(|| Base {
                nodes: Arc::clone(this),
                changed,
                topologies: Mutex::default(),
            }),
        }
    }

    /// The partitions in use.
    pub fn partitions(&self) -> RwLockReadGuard<'_, PartitionsInUse> {
        self.partitions.read()
    }

    /// Drops the partitions that were last used before tick `since`.
    pub fn drop_idle_partitions(&self, since: u64, upkeep: &Upkeep) {
        let mut partitions = write_between_reads(&self.partitions);
        partitions.drop_idle(since, &upkeep.discarded);
        if upkeep.is_process_full() {
            partitions.drop_half(&upkeep.discarded);
        }
        upkeep.note_partitions(partitions.memory_bytes());
    }
}
