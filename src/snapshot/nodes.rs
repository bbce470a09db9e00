//! The nodes of a snapshot, shared by all of its namespaces.

use parking_lot::{RwLock, RwLockReadGuard};

use super::lenses::{Lens, Lenses, Moves};
use super::node::{Node, NodeRef};
use super::node_order::NodeOrder;
use super::partition;
use super::slots::{Slot, Slots};
use super::symbols::{Symbol, Symbols};
use crate::matching::{NodeAffinity, Path, Taint, Violations};
use crate::proto::v1;

/// All nodes, by slot, by name and in node order.
#[derive(Debug, Default)]
pub struct Nodes {
    symbols: Symbols,
    slots: Slots,
    /// By slot; slots past its end have no node.
    nodes: Vec<Option<Node>>,
    /// What the nodes have on the heap.
    heap_bytes: usize,
    order: NodeOrder,
    /// Slots whose nodes changed since the lenses last followed.
    changed: Vec<Slot>,
    lenses: RwLock<Lenses>,
}

/// How many nodes may change in a batch before looking at all of them anew is
/// considered; it is done once a quarter of them changed.
const MIN_UPHEAVAL: usize = 64;

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
        let old = self.nodes[slot.index()].replace(node);
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

    fn release(&mut self, node: Option<Node>) {
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

    /// Frees the slots that nothing names. Not for the middle of changes that
    /// are taken back: what they took away is named again in the end, and its
    /// number must be what it was.
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
            Followed::Moved(lenses.update(&changed, |slot| self.get(slot)))
        };
        *self.lenses.get_mut() = lenses;
        followed
    }

    /// The lens of a key, made if need be, at tick `now`. All lenses may take
    /// about `max_bytes`.
    pub fn lens(&self, key: &partition::Key, now: u64, max_bytes: usize) -> Lens {
        if let Some(lens) = self.lenses.read().find(key, now) {
            return lens;
        }
        let mut lenses = self.lenses.write();
        if lenses.len() >= MAX_PARTITIONS || lenses.memory_bytes() > max_bytes {
            lenses.drop_half();
        }
        lenses.insert(key, self, now)
    }

    /// The lenses in use.
    pub fn lenses(&self) -> RwLockReadGuard<'_, Lenses> {
        self.lenses.read()
    }

    /// Drops the lenses that were last used before tick `since`.
    pub fn drop_idle_lenses(&self, since: u64) {
        self.lenses.write().drop_idle(since);
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

    /// What the nodes take in memory without topologies and partitions: an
    /// estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes
            + self.nodes.capacity() * size_of::<Option<Node>>()
            + size_of_val(self.order())
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
            // A copy is for writing out, not for deciding.
            lenses: RwLock::default(),
        }
    }
}
