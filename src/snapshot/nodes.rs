//! The nodes of a snapshot, shared by all of its namespaces.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::lenses::{Lens, Lenses, Moves};
use super::partition;
use super::symbols::{self, Labels, Symbol, Symbols};
use crate::matching::{NodeAffinity, NodeLabels, Path, Taint, Violations};
use crate::proto::v1;

/// The number of a node, whether it exists or is only named by pods. Reused
/// once nothing names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(NonZeroU32);

impl Slot {
    /// As an index into an array of [`Nodes::slot_count`] elements.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A node that exists.
#[derive(Debug, Clone)]
pub struct Node {
    name: Symbol,
    uid: Box<str>,
    labels: Labels,
    taints: Box<[Taint]>,
    unschedulable: bool,
}

/// All nodes, by slot, by name and in node order.
#[derive(Debug, Default)]
pub struct Nodes {
    symbols: Symbols,
    entries: Vec<Entry>,
    by_name: HashMap<Box<str>, Slot>,
    /// Slots of existing nodes, ascending by name.
    order: Vec<Slot>,
    /// Whether `order` is just all slots, ascending.
    in_slot_order: bool,
    /// Nodes that are not in `order` yet; see [`Self::settle`].
    added: Vec<Slot>,
    /// Whether `order` has nodes that are gone.
    removed: bool,
    free: Vec<Slot>,
    /// Slots that may have lost their last use while only a read lock was
    /// held; looked at by [`Self::settle`].
    idle: Mutex<Vec<Slot>>,
    /// Slots whose nodes changed since the lenses last followed.
    changed: Vec<Slot>,
    lenses: RwLock<Lenses>,
}

#[derive(Debug, Default)]
struct Entry {
    name: Box<str>,
    node: Option<Node>,
    /// Whether the slot is among those to look at; see [`Nodes::settle`].
    idle: AtomicBool,
    /// Pods that name the node. Counted through a shared reference, because
    /// namespaces change side by side.
    pods: AtomicU32,
}

/// Up to how many new nodes are inserted into node order one by one.
const MAX_INSERTIONS: usize = 64;

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
        if let Some(old) = &self.entries[slot.index()].node {
            let old_labels = self.symbols.label_texts(&old.labels);
            let same = *old.uid == *metadata.uid
                && old.unschedulable == unschedulable
                && old.taints == taints
                && old_labels.eq(metadata.labels.iter().map(|(k, v)| (&**k, &**v)));
            if same {
                return false;
            }
        } else {
            self.added.push(slot);
        }
        let node = Node {
            name: self.symbols.acquire(&metadata.name),
            uid: metadata.uid.as_str().into(),
            labels: self.symbols.acquire_labels(&metadata.labels),
            taints,
            unschedulable,
        };
        let old = self.entries[slot.index()].node.replace(node);
        self.release(old);
        self.changed.push(slot);
        true
    }

    /// Deletes a node, if it is there and `uid` is empty or its own; whether
    /// that made a difference.
    pub fn remove(&mut self, name: &str, uid: &str) -> bool {
        let Some(slot) = self.slot(name) else {
            return false;
        };
        let entry = &mut self.entries[slot.index()];
        if !entry
            .node
            .as_ref()
            .is_some_and(|node| uid.is_empty() || *node.uid == *uid)
        {
            return false;
        }
        let old = entry.node.take();
        self.release(old);
        self.note_idle(slot);
        self.removed = true;
        self.changed.push(slot);
        true
    }

    fn release(&mut self, node: Option<Node>) {
        if let Some(node) = node {
            self.symbols.release(node.name);
            self.symbols.release_labels(&node.labels);
        }
    }

    /// Restores node order and frees the slots that nothing names, after a
    /// run of changes.
    pub fn settle(&mut self) {
        for slot in std::mem::take(self.idle.get_mut()) {
            let entry = &mut self.entries[slot.index()];
            *entry.idle.get_mut() = false;
            let named = entry.node.is_some() || *entry.pods.get_mut() > 0;
            if !named && self.by_name.remove(&entry.name).is_some() {
                entry.name = Box::default();
                self.free.push(slot);
            }
        }
        if self.added.is_empty() && !self.removed {
            return;
        }
        self.settle_order();
        let in_order = |(i, slot): (usize, &Slot)| slot.index() == i;
        self.in_slot_order =
            self.order.len() == self.entries.len() && self.order.iter().enumerate().all(in_order);
    }

    fn settle_order(&mut self) {
        let Self {
            order,
            entries,
            added,
            removed,
            ..
        } = self;
        if std::mem::take(removed) {
            order.retain(|slot| entries[slot.index()].node.is_some());
        }
        added.retain(|slot| entries[slot.index()].node.is_some());
        let name = |slot: &Slot| &entries[slot.index()].name;
        if added.len() <= MAX_INSERTIONS {
            for slot in added.drain(..) {
                if let Err(at) = order.binary_search_by_key(&name(&slot), name) {
                    order.insert(at, slot);
                }
            }
        } else {
            order.append(added);
            // Stable, and so linear in what is sorted already.
            order.sort_by_key(name);
            order.dedup();
        }
    }

    /// Brings the lenses up to date after a run of changes.
    pub fn follow(&mut self) -> Followed {
        let changed = std::mem::take(&mut self.changed);
        let mut lenses = std::mem::take(self.lenses.get_mut());
        let followed = if lenses.is_empty() || changed.is_empty() {
            Followed::Moved(Vec::new())
        } else if changed.len() > MIN_UPHEAVAL.max(self.order.len() / 4) {
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
        if let Some(slot) = self.slot(name) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            Slot::at(self.entries.len() - 1)
        });
        self.entries[slot.index()].name = name.into();
        self.by_name.insert(name.into(), slot);
        // A slot without a node is not in node order.
        self.in_slot_order = false;
        self.note_idle(slot);
        slot
    }

    /// Notes that a slot may have lost its last use.
    fn note_idle(&self, slot: Slot) {
        let noted = &self.entries[slot.index()].idle;
        if !noted.swap(true, Ordering::Relaxed) {
            self.idle.lock().push(slot);
        }
    }

    /// The slot of a name that is in use.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied()
    }

    /// The name that a slot stands for.
    pub fn name(&self, slot: Slot) -> &str {
        &self.entries[slot.index()].name
    }

    /// Counts one more pod that names the node.
    pub fn add_pod(&self, slot: Slot) {
        self.entries[slot.index()]
            .pods
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one pod less.
    pub fn remove_pod(&self, slot: Slot) {
        let entry = &self.entries[slot.index()];
        if entry.pods.fetch_sub(1, Ordering::Relaxed) == 1 && entry.node.is_none() {
            self.note_idle(slot);
        }
    }

    /// How many nodes exist.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no node exists.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// One more than the largest slot's index.
    pub fn slot_count(&self) -> usize {
        self.entries.len()
    }

    /// Whether node order is just all slots, ascending, so that arrays by slot
    /// are in node order.
    pub fn are_in_slot_order(&self) -> bool {
        self.in_slot_order
    }

    /// The slots of existing nodes in node order: ascending by name.
    pub fn order(&self) -> &[Slot] {
        &self.order
    }

    /// The existing node of a slot.
    pub fn get(&self, slot: Slot) -> Option<NodeRef<'_>> {
        let node = self.entries[slot.index()].node.as_ref()?;
        Some(NodeRef {
            node,
            symbols: &self.symbols,
        })
    }

    /// The existing node of a name, with its slot.
    pub fn find(&self, name: &str) -> Option<Slot> {
        let slot = self.slot(name)?;
        self.entries[slot.index()].node.is_some().then_some(slot)
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
        let entry = size_of::<Entry>() + size_of::<(Box<str>, Slot)>() + 3 * size_of::<Slot>();
        let labels: usize = self
            .order
            .iter()
            .filter_map(|s| self.get(*s))
            .map(NodeRef::bytes)
            .sum();
        let idle = self.idle.lock().capacity() * size_of::<Slot>();
        self.symbols.memory_bytes() + self.entries.capacity() * entry + labels + idle
    }
}

impl Clone for Nodes {
    fn clone(&self) -> Self {
        let entry = |entry: &Entry| Entry {
            name: entry.name.clone(),
            node: entry.node.clone(),
            idle: AtomicBool::new(entry.idle.load(Ordering::Relaxed)),
            pods: AtomicU32::new(entry.pods.load(Ordering::Relaxed)),
        };
        Self {
            symbols: self.symbols.clone(),
            entries: self.entries.iter().map(entry).collect(),
            by_name: self.by_name.clone(),
            order: self.order.clone(),
            in_slot_order: self.in_slot_order,
            added: self.added.clone(),
            removed: self.removed,
            free: self.free.clone(),
            idle: Mutex::new(self.idle.lock().clone()),
            changed: Vec::new(),
            // A copy is for writing out, not for deciding.
            lenses: RwLock::default(),
        }
    }
}

impl Slot {
    /// The slot of an index. Counted from 1 inside, so that having none takes
    /// no more room than having one.
    pub(super) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 nodes"))
    }
}

/// An existing node together with the table of its strings.
#[derive(Debug, Clone, Copy)]
pub struct NodeRef<'a> {
    node: &'a Node,
    symbols: &'a Symbols,
}

impl<'a> NodeRef<'a> {
    /// The name.
    pub fn name(self) -> &'a str {
        self.symbols.text(self.node.name)
    }

    /// The taints.
    pub fn taints(self) -> &'a [Taint] {
        &self.node.taints
    }

    /// Whether it is cordoned.
    pub fn unschedulable(self) -> bool {
        self.node.unschedulable
    }

    /// The value of a label, given the symbol of its key.
    pub fn label(self, key: Symbol) -> Option<Symbol> {
        symbols::label_value(&self.node.labels, key).copied()
    }

    /// The value of a label.
    pub fn label_text(self, key: &str) -> Option<&'a str> {
        let labels = self.symbols.label_texts(&self.node.labels);
        labels
            .into_iter()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    }

    /// The node for the wire.
    pub fn to_wire(self) -> v1::Node {
        let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let taint = |taint: &Taint| v1::Taint {
            key: taint.key.to_string(),
            value: taint.value.to_string(),
            effect: taint.effect.as_str().to_owned(),
        };
        v1::Node {
            metadata: Some(v1::ObjectMeta {
                name: self.name().to_owned(),
                uid: self.node.uid.to_string(),
                labels: self
                    .symbols
                    .label_texts(&self.node.labels)
                    .map(text)
                    .collect(),
                ..Default::default()
            }),
            spec: Some(v1::NodeSpec {
                unschedulable: self.node.unschedulable,
                taints: self.node.taints.iter().map(taint).collect(),
            }),
        }
    }

    fn bytes(self) -> usize {
        size_of_val(&*self.node.labels) + size_of_val(&*self.node.taints) + self.node.uid.len()
    }
}

impl NodeLabels<Symbol> for NodeRef<'_> {
    fn name(&self) -> &Symbol {
        &self.node.name
    }

    fn label(&self, key: &Symbol) -> Option<&Symbol> {
        symbols::label_value(&self.node.labels, *key)
    }

    fn text<'v>(&'v self, value: &'v Symbol) -> &'v str {
        self.symbols.text(*value)
    }
}

impl NodeLabels<str> for NodeRef<'_> {
    fn name(&self) -> &str {
        NodeRef::name(*self)
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.label_text(key)
    }

    fn text<'v>(&'v self, value: &'v str) -> &'v str {
        value
    }
}
