//! The growth of a state by changes that it has not applied yet.

use std::collections::HashSet;

use super::namespace::Namespace;
use super::revision::{Sizes, State};
use crate::account::Purpose;
use crate::proto::v1::change::Object;
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::pod::CompiledPod;

/// The bytes that one change of a namespace copies: a block of pods and one of label sets.
const COPIED_PER_CHANGE: usize = 32 << 10;

/// The most bytes that are copied of a pod, a label set or an owner when others in its block change.
const COPIED_PER_OBJECT: usize = 512;

/// The bytes that are copied of a node when another one changes, and those of its place in a
/// partition.
const COPIED_PER_NODE: usize = 128;
const COPIED_PER_MEMBER: usize = 8;

impl State {
    /// Returns whether there is memory for a batch. One that does not make the state grow needs none.
    pub(in crate::snapshot) fn has_memory(&self, batch: &Batch) -> bool {
        self.upkeep.account().has_room(Purpose::Objects, 0) || !self.grows_with(batch)
    }

    /// Returns the most bytes that a clone of the state takes for itself once a batch is applied to
    /// it. It shares unchanged blocks.
    pub(in crate::snapshot) fn copied_bytes(&self, batch: &Batch) -> usize {
        let now = self.sizes;
        let objects = now.pods + now.label_sets + now.owners + batch.len();
        let of_blocks = objects.saturating_mul(COPIED_PER_OBJECT);
        let of_blocks = of_blocks.min(batch.len().saturating_mul(COPIED_PER_CHANGE));
        if !batch.has_nodes {
            return of_blocks;
        }
        let members = self.shared.nodes.partitions().len();
        let of_node = COPIED_PER_NODE + members.saturating_mul(COPIED_PER_MEMBER);
        of_blocks + (now.nodes + batch.len()).saturating_mul(of_node)
    }

    /// Returns the most objects that a batch adds: its additions come before its deletions.
    pub fn additions(&self, batch: &Batch) -> Sizes {
        let mut new = Sizes::default();
        let mut label_sets = HashSet::new();
        for change in batch.changes() {
            let id = change.id;
            if matches!(change.form, Form::Delete(_)) {
                continue;
            }
            let namespace = self.namespace(id.namespace);
            match id.kind {
                ObjectKind::Node => {
                    let known = self.nodes().find(id.name).is_some();
                    new.nodes += usize::from(!known);
                }
                ObjectKind::Namespace | ObjectKind::Storage(_) => {
                    let known = self.shared.cluster.contains(&change);
                    new.owners += usize::from(!known);
                }
                ObjectKind::Owner(kind) => {
                    let known = namespace.is_some_and(|n| n.owners().contains(kind, id.name));
                    new.owners += usize::from(!known);
                }
                ObjectKind::Pod => {
                    let known = namespace.is_some_and(|n| n.pods.get(id.name).is_some());
                    new.pods += usize::from(!known);
                    if let Form::Pod(pod) = change.form {
                        let labels = pod.labels();
                        let known =
                            namespace.is_some_and(|n| n.label_sets().find(labels).is_some());
                        let fresh = !known && label_sets.insert((id.namespace, labels));
                        new.label_sets += usize::from(fresh);
                    }
                }
            }
        }
        new
    }

    /// Returns the number of a batch's objects that the state has in the same form.
    pub(in crate::snapshot) fn held_alike(&self, batch: &Batch) -> usize {
        batch
            .changes()
            .filter(|change| self.has_same(change))
            .count()
    }

    /// Returns whether the state has the object of a change in the same form.
    fn has_same(&self, change: &ValidChange<'_>) -> bool {
        let id = change.id;
        let namespace = self.namespace(id.namespace);
        let nodes = self.nodes();
        match (change.form, namespace) {
            (Form::Node(node, compiled), _) => !nodes.is_changed_by(node, compiled),
            (Form::Namespace(_) | Form::Storage(_), _) => self.shared.cluster.has_same(change),
            (Form::Pod(pod), Some(n)) => n.has_same_pod(pod, nodes),
            (Form::Owner(kind, owner), Some(n)) => n.owners().has_same(kind, id.name, owner),
            (Form::Delete(_), _) | (_, None) => false,
        }
    }

    /// Returns whether the state grows with a batch. Checks which objects exist already, and compares
    /// their messages.
    fn grows_with(&self, batch: &Batch) -> bool {
        let grows = |change: ValidChange<'_>| {
            let id = change.id;
            let nodes = self.nodes();
            let old = match (change.form, self.namespace(id.namespace)) {
                (Form::Delete(_), _) => return false,
                (Form::Pod(pod), namespace) => {
                    return !namespace.is_some_and(|it| it.has_parts_of(pod, nodes));
                }
                (Form::Node(..), _) => {
                    let old = nodes.find(id.name).and_then(|slot| nodes.get(slot));
                    old.map(|old| Object::Node(old.to_wire()))
                }
                (Form::Owner(kind, _), Some(namespace)) => {
                    namespace.owners().get_wire(kind, id.namespace, id.name)
                }
                _ => None,
            };
            let length = change.object().map_or(0, Object::encoded_len);
            !self.has_same(&change) && old.is_none_or(|old| length > old.encoded_len())
        };
        batch.changes().any(grows)
    }
}

impl Namespace {
    /// Returns whether a namespace has the pod, and all that it may have in common with others:
    /// its labels, its node and its requirements.
    fn has_parts_of(&self, pod: &CompiledPod, nodes: &Nodes) -> bool {
        let node = pod.node_name();
        self.asks_alike(pod) == Some(true)
            && self.label_sets().find(pod.labels()).is_some()
            && (node.is_empty() || nodes.slot(node).is_some())
            && pod.life.nominated_node().is_empty()
    }
}
