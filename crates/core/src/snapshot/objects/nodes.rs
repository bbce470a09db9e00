//! The nodes of a snapshot, shared by all of its namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::label_sets::{InternedLabels, Symbol, Symbols};
use super::slots::{Slot, Slots};
use crate::matching::{Allocatable, Features, Path, Taint, Violations};
use crate::proto::v1;

/// All nodes, by slot, by name and in node order.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    symbols: Symbols,
    slots: Slots,
    /// By slot; slots past its end have no node. Copies share them.
    nodes: Vec<Option<Arc<StoredNode>>>,
    /// The number of nodes that report their resources.
    with_room: usize,
    /// The number of nodes with each resource that is not common.
    having: BTreeMap<Arc<str>, usize>,
    /// The slots of the nodes that exist, ascending by name, once `order` is settled.
    order: Vec<Slot>,
    /// Nodes that are not in `order` yet.
    added: Vec<Slot>,
    /// True if `order` has deleted nodes.
    has_removed: bool,
    /// Nodes that changed since [`Self::take_changed`].
    changed: Vec<Slot>,
    /// A revision at or after the last change of the order; 0 where it is the order of no revision.
    pub ordered_at: i64,
}

impl Nodes {
    /// Creates or updates a valid node with this compiled form. Returns whether that made a
    /// difference.
    pub fn put(&mut self, wire: &v1::Node, compiled: &CompiledNode) -> bool {
        let metadata = wire.metadata.as_ref();
        let metadata = metadata.expect("a validated node has metadata");
        if !self.is_changed_by(wire, compiled) {
            return false;
        }
        let slot = self.reserve(&metadata.name);
        if self.nodes.len() <= slot.index() {
            self.nodes.resize_with(slot.index() + 1, || None);
        }
        if self.nodes[slot.index()].is_none() {
            self.added.push(slot);
        }
        let node = StoredNode {
            name: self.symbols.acquire(&metadata.name),
            uid: metadata.uid.as_str().into(),
            labels: self.symbols.acquire_labels(&metadata.labels),
            compiled: compiled.clone(),
        };
        let allocatable = &node.compiled.allocatable;
        self.with_room += usize::from(allocatable.is_some());
        for resource in allocatable.iter().flat_map(Allocatable::named) {
            *self.having.entry(Arc::clone(resource)).or_default() += 1;
        }
        let old = self.nodes[slot.index()].replace(Arc::new(node));
        self.release(old);
        self.changed.push(slot);
        true
    }

    /// Returns whether a valid node with this compiled form is new or changed.
    fn is_changed_by(&self, wire: &v1::Node, compiled: &CompiledNode) -> bool {
        let Some(metadata) = &wire.metadata else {
            return false;
        };
        let old = self.slot(&metadata.name);
        let Some(old) = old.and_then(|slot| self.nodes.get(slot.index())?.as_ref()) else {
            return true;
        };
        let old_labels = self.symbols.label_texts(&old.labels);
        let same = *old.uid == *metadata.uid
            && old.compiled == *compiled
            && old_labels.eq(metadata.labels.iter().map(|(k, v)| (&**k, &**v)));
        !same
    }

    /// Deletes a node, if it exists and `uid` is empty or its own. Returns
    /// whether that made a difference.
    pub fn remove(&mut self, name: &str, uid: &str) -> bool {
        let meant = |node: NodeRef<'_>| uid.is_empty() || node.uid() == uid;
        let slot = self.slot(name);
        let Some(slot) = slot.filter(|slot| self.get(*slot).is_some_and(meant)) else {
            return false;
        };
        let old = self.nodes[slot.index()].take();
        self.release(old);
        self.has_removed = true;
        self.changed.push(slot);
        true
    }

    fn release(&mut self, node: Option<Arc<StoredNode>>) {
        if let Some(node) = node {
            let allocatable = &node.compiled.allocatable;
            self.with_room -= usize::from(allocatable.is_some());
            for resource in allocatable.iter().flat_map(Allocatable::named) {
                self.forget(resource);
            }
            self.symbols.release(node.name);
            self.symbols.release_labels(&node.labels);
        }
    }

    /// Counts one node less with a resource.
    fn forget(&mut self, resource: &Arc<str>) {
        if let Some(nodes) = self.having.get_mut(resource) {
            *nodes -= 1;
            if *nodes == 0 {
                self.having.remove(resource);
            }
        }
    }

    /// Restores node order after a run of changes. They lead to this revision, or with 0 to none.
    pub fn settle(&mut self, revision: i64) {
        if self.has_removed || !self.added.is_empty() {
            self.ordered_at = revision;
        }
        let Self {
            nodes,
            slots,
            order,
            added,
            has_removed,
            ..
        } = self;
        let exists = |slot: &Slot| nodes.get(slot.index()).is_some_and(Option::is_some);
        if std::mem::take(has_removed) {
            order.retain(exists);
        }
        added.retain(exists);
        if !added.is_empty() {
            order.append(added);
            // A stable sort is linear where the list is already sorted.
            order.sort_by_key(|slot| slots.name(*slot));
            order.dedup();
        }
    }

    /// Frees the slots of names that neither a node nor a pod has. The nodes must be settled.
    pub fn free_unnamed(&mut self, has_pods: impl Fn(Slot) -> bool) {
        if self.slots.in_use() > self.len() {
            let Self { nodes, slots, .. } = self;
            let exists = |slot: Slot| nodes.get(slot.index()).is_some_and(Option::is_some);
            slots.retain(|slot| exists(slot) || has_pods(slot));
        }
    }

    /// The nodes that changed since the last call.
    pub fn take_changed(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.changed)
    }

    /// The slot of a name, given out if needed, for a node or pods to come.
    pub fn reserve(&mut self, name: &str) -> Slot {
        self.slots.reserve(name)
    }

    /// The slot of a name that is in use.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.find(name)
    }

    /// The name of a slot.
    pub fn name(&self, slot: Slot) -> &str {
        self.slots.name(slot)
    }

    /// Returns the number of existing nodes.
    pub fn len(&self) -> usize {
        self.order().len()
    }

    /// Returns whether no node exists.
    pub fn is_empty(&self) -> bool {
        self.order().is_empty()
    }

    /// One more than the largest slot's index.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// The slots of existing nodes in node order: ascending by name.
    pub fn order(&self) -> &[Slot] {
        &self.order
    }

    /// The names of the nodes in node order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|slot| self.name(*slot))
    }

    /// Returns whether `slots` is all of [`Self::order`], and not a copy.
    pub fn is_order(&self, slots: &[Slot]) -> bool {
        std::ptr::eq(slots, self.order())
    }

    /// The existing node of a slot.
    pub fn get(&self, slot: Slot) -> Option<NodeRef<'_>> {
        let node = self.nodes.get(slot.index())?.as_ref()?;
        let symbols = &self.symbols;
        Some(NodeRef { node, symbols })
    }

    /// Returns whether nodes are checked for room: at least one reports its resources.
    pub fn know_room(&self) -> bool {
        self.with_room > 0
    }

    /// Returns whether some node has none of a resource that is not common.
    pub fn lack(&self, resource: &str) -> bool {
        self.having
            .get(resource)
            .is_none_or(|nodes| *nodes < self.len())
    }

    /// The slot of the existing node of a name.
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.slot(name).filter(|slot| self.get(*slot).is_some())
    }

    /// The interned strings of the nodes.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

/// A node that exists.
#[derive(Debug, Clone)]
pub(in crate::snapshot) struct StoredNode {
    pub name: Symbol,
    pub uid: Box<str>,
    pub labels: InternedLabels,
    pub compiled: CompiledNode,
}

/// The compiled form of a node on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompiledNode {
    /// True if the node is cordoned.
    pub unschedulable: bool,
    /// The node's taints.
    pub taints: Box<[Taint]>,
    /// The resources that pods may request from it.
    pub allocatable: Option<Allocatable>,
    /// The features that the node declares.
    pub features: Features,
}

impl CompiledNode {
    /// Checks and compiles a node, which is at `path`.
    pub fn compile(wire: &v1::Node, path: Path<'_>, faults: &mut Violations) -> Self {
        let taints = wire.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
        let taints = Taint::compile(taints, path.field("spec.taints"), faults);
        let allocatable = wire.status.as_ref().and_then(|wire| {
            Allocatable::compile(&wire.allocatable, path.field("status.allocatable"), faults)
        });
        let features = wire.status.as_ref().map(|it| &*it.declared_features);
        Self {
            unschedulable: wire.spec.as_ref().is_some_and(|it| it.unschedulable),
            features: features.map_or(Features::NONE, Features::declared),
            taints,
            allocatable,
        }
    }
}

/// An existing node together with the table of its strings.
#[derive(Debug, Clone, Copy)]
pub struct NodeRef<'a> {
    pub(super) node: &'a StoredNode,
    pub(super) symbols: &'a Symbols,
}

impl<'a> NodeRef<'a> {
    /// The name.
    pub fn name(self) -> &'a str {
        self.symbols.text(self.node.name)
    }

    /// The uid; empty when unknown.
    pub(in crate::snapshot) fn uid(self) -> &'a str {
        &self.node.uid
    }

    /// The taints.
    pub fn taints(self) -> &'a [Taint] {
        &self.node.compiled.taints
    }

    /// Returns whether the node is cordoned.
    pub fn unschedulable(self) -> bool {
        self.node.compiled.unschedulable
    }

    /// Returns the resources that pods may request.
    pub fn allocatable(self) -> Option<&'a Allocatable> {
        self.node.compiled.allocatable.as_ref()
    }

    /// The features that the node declares.
    pub fn features(self) -> Features {
        self.node.compiled.features
    }

    /// The value of a label, given the symbol of its key.
    pub fn label(self, key: Symbol) -> Option<Symbol> {
        self.symbols.label_value(&self.node.labels, key).copied()
    }

    /// The value of a label.
    pub fn label_text(self, key: &str) -> Option<&'a str> {
        let value = self.symbols.label_text(&self.node.labels, key)?;
        Some(self.symbols.text(*value))
    }

    /// The labels.
    pub fn label_texts(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.symbols.label_texts(&self.node.labels)
    }

    fn status_to_wire(self) -> Option<v1::NodeStatus> {
        let has = self.allocatable();
        let features = self.features();
        (has.is_some() || !features.is_empty()).then(|| v1::NodeStatus {
            allocatable: has.map(Allocatable::to_wire).unwrap_or_default(),
            declared_features: features.names().map(str::to_owned).collect(),
        })
    }

    /// The node for the wire.
    pub fn to_wire(self) -> v1::Node {
        let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let taint = |taint: &Taint| v1::Taint {
            key: taint.key.to_string(),
            value: taint.value.to_string(),
            effect: taint.effect.as_str().to_owned(),
            time_added: taint
                .time_added
                .map(|seconds| pbjson_types::Timestamp { seconds, nanos: 0 }),
        };
        v1::Node {
            metadata: Some(v1::ObjectMeta {
                name: self.name().to_owned(),
                uid: self.node.uid.to_string(),
                labels: self.label_texts().map(text).collect(),
                ..Default::default()
            }),
            spec: Some(v1::NodeSpec {
                unschedulable: self.unschedulable(),
                taints: self.taints().iter().map(taint).collect(),
            }),
            status: self.status_to_wire(),
        }
    }
}
