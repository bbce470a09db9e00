//! The nodes of a snapshot, shared by all of its namespaces.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::node::{Node, NodeRef};
use super::node_order::NodeOrder;
use super::slots::{Slot, Slots};
use super::symbols::{Symbol, Symbols};
use crate::account::heap;
use crate::matching::{NodeAffinity, Path, Taint, Violations};
use crate::proto::v1;
use crate::snapshot::budget::Budget;
use crate::snapshot::counts::partition::{self, Partition};
use crate::snapshot::counts::partitions::{Lens, Lenses, Moves};
use crate::snapshot::counts::topology::Topology;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::state::read_view::DecisionId;

/// All nodes, by slot, by name and in node order.
#[derive(Debug, Default)]
pub struct Nodes {
    symbols: Symbols,
    slots: Slots,
    /// By slot; slots past its end have no node. Copies share them.
    nodes: Vec<Option<Arc<Node>>>,
    /// What the nodes have on the heap.
    heap_bytes: usize,
    order: NodeOrder,
    /// Slots whose nodes changed since the lenses last followed.
    changed: Vec<Slot>,
    lenses: RwLock<Lenses>,
    /// What these were copied from to be changed, while following that is
    /// cheaper than looking anew.
    base: Option<Base>,
}

/// Nodes as they were, and where others differ from them.
#[derive(Debug)]
struct Base {
    nodes: Arc<Nodes>,
    changed: Vec<Slot>,
    /// Topologies of theirs, each with what became of it.
    topologies: Mutex<Vec<(Arc<Topology>, Arc<Topology>)>>,
}

/// What all partitions together may cost to follow a batch of nodes, in units;
/// about 10 ms. Those that cost more than their share are dropped first.
const MAX_FOLLOWING: usize = 2_000_000;

/// How many nodes may change in a batch before looking at all of them anew is
/// considered; it is done once a quarter of them changed.
const MIN_UPHEAVAL: usize = 64;

/// What it costs to find the domain of a node, in units.
const UNITS_PER_DOMAIN: usize = 5;

/// How many partitions share what following may cost.
const SHARES: usize = 64;

/// How many ways of looking at the nodes are kept, at most.
const MAX_PARTITIONS: usize = 4_096;

/// What became of the lenses when nodes changed.
#[derive(Debug)]
pub enum Followed {
    /// They are up to date; these nodes moved between domains.
    Moved(Vec<Moves>),
    /// Too much changed: they were dropped.
    Dropped,
}

impl Nodes {
    /// Creates or updates a valid node; whether that made a difference.
    pub fn put(&mut self, wire: &v1::Node) -> bool {
        let (metadata, spec) = (wire.metadata.as_ref(), wire.spec.as_ref());
        let metadata = metadata.expect("a validated node has metadata");
        let mut no_faults = Violations::default();
        let taints = spec.map_or(&[][..], |s| &s.taints);
        let taints = Taint::compile(taints, Path::root("taints"), &mut no_faults);
        let unschedulable = spec.is_some_and(|s| s.unschedulable);

        let slot = self.reserve(&metadata.name);
        if self.nodes.len() <= slot.index() {
            self.nodes.resize_with(slot.index() + 1, || None);
        }
        if let Some(old) = &self.nodes[slot.index()] {
            let old_labels = self.symbols.label_texts(&old.labels);
            let same = *old.uid == *metadata.uid
                && old.unschedulable == unschedulable
                && old.taints == taints
                && old_labels.eq(metadata.labels.iter().map(|(k, v)| (&**k, &**v)));
            if same {
                return false;
            }
        } else {
            self.order.add(slot);
        }
        let node = Node {
            name: self.symbols.acquire(&metadata.name),
            uid: metadata.uid.as_str().into(),
            labels: self.symbols.acquire_labels(&metadata.labels),
            taints,
            unschedulable,
        };
        self.heap_bytes += node.heap_bytes();
        let old = self.nodes[slot.index()].replace(Arc::new(node));
        self.release(old);
        self.changed.push(slot);
        true
    }

    /// Deletes a node, if it is there and `uid` is empty or its own; whether
    /// that made a difference.
    pub fn remove(&mut self, name: &str, uid: &str) -> bool {
        let meant = |node: NodeRef<'_>| uid.is_empty() || node.uid() == uid;
        let slot = self.slot(name);
        let Some(slot) = slot.filter(|slot| self.get(*slot).is_some_and(meant)) else {
            return false;
        };
        let old = self.nodes[slot.index()].take();
        self.release(old);
        self.slots.note_idle(slot);
        self.order.remove();
        self.changed.push(slot);
        true
    }

    fn release(&mut self, node: Option<Arc<Node>>) {
        if let Some(node) = node {
            self.heap_bytes -= node.heap_bytes();
            self.symbols.release(node.name);
            self.symbols.release_labels(&node.labels);
        }
    }

    /// Restores node order, after a run of changes.
    pub fn settle(&mut self) {
        let Self {
            nodes,
            slots,
            order,
            ..
        } = self;
        let exists = |slot: Slot| nodes.get(slot.index()).is_some_and(Option::is_some);
        order.settle(exists, |slot| slots.name(slot));
    }

    /// Frees the slots that nothing names. Not for a copy, whose pods are not
    /// counted with it.
    pub fn free_unnamed(&mut self) {
        let Self { nodes, slots, .. } = self;
        let exists = |slot: Slot| nodes.get(slot.index()).is_some_and(Option::is_some);
        slots.settle(exists);
    }

    /// Brings the lenses up to date after a run of changes.
    pub fn follow(&mut self) -> Followed {
        let changed = std::mem::take(&mut self.changed);
        let mut lenses = std::mem::take(self.lenses.get_mut());
        let followed = if lenses.is_empty() || changed.is_empty() {
            Followed::Moved(Vec::new())
        } else if changed.len() > MIN_UPHEAVAL.max(self.len() / 4) {
            lenses.clear();
            Followed::Dropped
        } else {
            let most = MAX_FOLLOWING / changed.len();
            if lenses.units_per_node() > most {
                lenses.drop_costly(most / SHARES);
            }
            Followed::Moved(lenses.update(&changed, |slot| self.get(slot)))
        };
        *self.lenses.get_mut() = lenses;
        followed
    }

    /// The lens of a key, made if need be and if the budget allows it, and kept
    /// if there is room.
    pub fn lens(
        &self,
        key: &partition::Key,
        upkeep: &Upkeep,
        by: DecisionId,
        budget: &Budget<'_>,
    ) -> Option<Lens> {
        let now = upkeep.tick();
        loop {
            if let Some(lens) = self.lenses.read().find(key, now, by) {
                return Some(lens);
            }
            // Made without a lock: others look up theirs meanwhile.
            let (topology, partition) = match &self.base {
                Some(base) => self.follow_base(base, key, (upkeep, by), budget)?,
                None => self.look(key, budget)?,
            };
            let mut lenses = self.lenses.write();
            let bytes = partition.memory_bytes();
            // Lenses of what is imagined are gone with the decision.
            let counts = self.base.is_none();
            if lenses.len() >= MAX_PARTITIONS || !upkeep.has_lens_room(bytes) {
                lenses.drop_half();
                if counts {
                    upkeep.note_lenses(lenses.memory_bytes());
                }
            }
            if !upkeep.has_lens_room(bytes) {
                return Some(Lens::unkept(topology, partition));
            }
            if let Some(lens) = lenses.insert(&topology, &partition, now, by) {
                if counts {
                    upkeep.note_lenses(lenses.memory_bytes());
                }
                return Some(lens);
            }
        }
    }

    /// Looks at all nodes for what a key asks for.
    fn look(
        &self,
        key: &partition::Key,
        budget: &Budget<'_>,
    ) -> Option<(Arc<Topology>, Arc<Partition>)> {
        let known = self.lenses.read().topology(&key.topology);
        let topology = match known {
            Some(topology) => topology,
            None => {
                if !budget.takes(self.len().saturating_mul(UNITS_PER_DOMAIN)) {
                    return None;
                }
                Arc::new(Topology::of(&key.topology, self))
            }
        };
        if !budget.affords(Partition::units(key, self.len())) {
            return None;
        }
        let partition = Partition::of(key.clone(), &topology, self, budget)?;
        Some((topology, Arc::new(partition)))
    }

    /// What became of the base's lens of a key.
    fn follow_base(
        &self,
        base: &Base,
        key: &partition::Key,
        (upkeep, by): (&Upkeep, DecisionId),
        budget: &Budget<'_>,
    ) -> Option<(Arc<Topology>, Arc<Partition>)> {
        let lens = base.nodes.lens(key, upkeep, by, budget)?;
        let units = base.changed.len() * key.eligibility.units_per_node();
        if !budget.takes(self.slot_count() + units) {
            return None;
        }
        let mut topologies = base.topologies.lock();
        let known = topologies
            .iter()
            .find(|(before, _)| Arc::ptr_eq(before, &lens.topology));
        let topology = match known {
            Some((_, after)) => Arc::clone(after),
            None if self.lenses.read().topology(&key.topology).is_some() => {
                // Another one took its place in the base meanwhile.
                drop(topologies);
                return self.look(key, budget);
            }
            None => {
                let mut topology = Topology::clone(&lens.topology);
                for slot in &base.changed {
                    topology.update(*slot, self.get(*slot));
                }
                let topology = Arc::new(topology);
                topologies.push((lens.topology, Arc::clone(&topology)));
                topology
            }
        };
        let mut partition = Partition::clone(&lens.partition);
        for slot in &base.changed {
            partition.update(*slot, self.get(*slot), &topology);
        }
        Some((topology, Arc::new(partition)))
    }

    /// The nodes behind a reference, to change them: apart from whoever holds
    /// another reference, and with the lenses.
    pub fn to_change(this: &mut Arc<Self>) -> &mut Self {
        if Arc::get_mut(this).is_none() {
            let mut own = Self::clone(this);
            *own.lenses.get_mut() = std::mem::take(&mut *this.lenses.write());
            *this = Arc::new(own);
        }
        Arc::get_mut(this).expect("it is shared with nobody, or was just made")
    }

    /// A copy that is changed by `change` and looked at, and dropped then: its
    /// slots are never freed.
    pub fn imagined(this: &Arc<Self>, change: impl FnOnce(&mut Self)) -> Self {
        let mut own = Self::clone(this);
        change(&mut own);
        own.settle();
        let changed = std::mem::take(&mut own.changed);
        if changed.len() <= MIN_UPHEAVAL.max(own.len() / 4) {
            own.base = Some(Base {
                nodes: Arc::clone(this),
                changed,
                topologies: Mutex::default(),
            });
        }
        own
    }

    /// The lenses in use.
    pub fn lenses(&self) -> RwLockReadGuard<'_, Lenses> {
        self.lenses.read()
    }

    /// Drops the lenses that were last used before tick `since`.
    pub fn drop_idle_lenses(&self, since: u64, upkeep: &Upkeep) {
        let mut lenses = self.lenses.write();
        lenses.drop_idle(since);
        if upkeep.is_process_full() {
            lenses.drop_half();
        }
        upkeep.note_lenses(lenses.memory_bytes());
    }

    /// The slot of a name, given out if need be, for a node or pods to come.
    pub fn reserve(&mut self, name: &str) -> Slot {
        self.slots.reserve(name)
    }

    /// The slot of a name that is in use.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.find(name)
    }

    /// The name that a slot stands for.
    pub fn name(&self, slot: Slot) -> &str {
        self.slots.name(slot)
    }

    /// Counts one more pod that names the node.
    pub fn add_pod(&self, slot: Slot) {
        self.slots.add_pod(slot);
    }

    /// Counts one pod less.
    pub fn remove_pod(&self, slot: Slot) {
        if self.slots.remove_pod(slot) && self.get(slot).is_none() {
            self.slots.note_idle(slot);
        }
    }

    /// How many nodes exist.
    pub fn len(&self) -> usize {
        self.order().len()
    }

    /// Whether no node exists.
    pub fn is_empty(&self) -> bool {
        self.order().is_empty()
    }

    /// One more than the largest slot's index.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// The slots of existing nodes in node order: ascending by name.
    pub fn order(&self) -> &[Slot] {
        self.order.slots()
    }

    /// Whether `slots` is all of [`Self::order`], and not a copy.
    pub fn is_order(&self, slots: &[Slot]) -> bool {
        std::ptr::eq(slots, self.order())
    }

    /// The existing node of a slot.
    pub fn get(&self, slot: Slot) -> Option<NodeRef<'_>> {
        let node = self.nodes.get(slot.index())?.as_ref()?;
        Some(NodeRef::of(node, &self.symbols))
    }

    /// The existing node of a name, with its slot.
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.slot(name).filter(|slot| self.get(*slot).is_some())
    }

    /// The interned strings of the nodes.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Affinity in terms of the nodes' symbols, for matching many nodes.
    pub fn resolve(&self, affinity: &NodeAffinity) -> NodeAffinity<Symbol> {
        affinity.map(|text| self.symbols.find(text).unwrap_or(Symbol::ABSENT))
    }

    /// What its tables take more at once with so many more nodes and texts.
    pub fn doubling(&self, nodes: usize, texts: usize) -> usize {
        let (len, room) = (self.nodes.len(), self.nodes.capacity());
        heap::doubling(heap::list::<Option<Arc<Node>>>(room), len, room, nodes)
            + self.slots.doubling(nodes)
            + self.symbols.doubling(texts)
    }

    /// As [`Self::memory_bytes`], with every node measured anew.
    pub fn measured_bytes(&self) -> usize {
        let nodes = self.nodes.iter().flatten().map(|node| node.heap_bytes());
        let kept = self.heap_bytes + self.slots.memory_bytes() + self.symbols.memory_bytes();
        self.memory_bytes() - kept
            + nodes.sum::<usize>()
            + self.slots.measured_bytes()
            + self.symbols.measured_bytes()
    }

    /// What the nodes take in memory without topologies and partitions: an
    /// estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes
            + heap::list::<Option<Arc<Node>>>(self.nodes.capacity())
            + self.len() * heap::shared(size_of::<Node>())
            + self.order.memory_bytes()
            + self.slots.memory_bytes()
            + self.symbols.memory_bytes()
    }
}

impl Clone for Nodes {
    fn clone(&self) -> Self {
        Self {
            symbols: self.symbols.clone(),
            slots: self.slots.clone(),
            nodes: self.nodes.clone(),
            heap_bytes: self.heap_bytes,
            order: self.order.clone(),
            changed: Vec::new(),
            lenses: RwLock::default(),
            base: None,
        }
    }
}
