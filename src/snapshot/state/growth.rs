//! How much more a state takes with changes that it has not applied yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::footprint::shard_bytes;
use super::namespace::Namespace;
use super::shards::State;
use crate::account::{Charge, Exhausted, Part, heap};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::objects::change::{Batch, Identity, Kind, metadata_of};
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::templates;

/// What places in lists and maps take for an object of any kind, with the room
/// that those have spare.
const PLACES: usize = 512;

/// The same for a label: its pair, and the entries of two strings.
const LABEL_PLACES: usize = 160;

/// What an object takes in memory, at most, if nothing of it is known.
pub(in crate::snapshot) fn most(object: &Object) -> usize {
    let Some(metadata) = metadata_of(object) else {
        return 0;
    };
    let own = match object {
        Object::Node(node) => node_bytes(node),
        Object::Pod(pod) => pod_bytes(pod),
        Object::Service(service) => service.spec.as_ref().map_or(0, |s| pairs(&s.selector)),
        Object::ReplicationController(controller) => {
            controller.spec.as_ref().map_or(0, |s| pairs(&s.selector))
        }
        Object::ReplicaSet(set) => selector(set.spec.as_ref().and_then(|s| s.selector.as_ref())),
        Object::StatefulSet(set) => selector(set.spec.as_ref().and_then(|s| s.selector.as_ref())),
        Object::Delete(_) => 0,
    };
    own + names(metadata) + PLACES
}

fn names(metadata: &v1::ObjectMeta) -> usize {
    // The namespace may be new.
    heap::block(metadata.name.len())
        + heap::block(metadata.uid.len())
        + shard_bytes(&metadata.namespace)
}

fn pairs(labels: &BTreeMap<String, String>) -> usize {
    heap::pairs(labels) + labels.len() * LABEL_PLACES
}

fn node_bytes(node: &v1::Node) -> usize {
    let taints = node.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
    let taint =
        |taint: &v1::Taint| heap::block(taint.key.len()) + heap::block(taint.value.len()) + 40;
    let metadata = node.metadata.as_ref();
    let name = metadata.map_or(0, |m| 3 * heap::block(m.name.len()));
    name + metadata.map_or(0, |m| pairs(&m.labels)) + taints.iter().map(taint).sum::<usize>()
}

fn pod_bytes(pod: &v1::Pod) -> usize {
    let labels = pod.metadata.as_ref().map_or(0, |m| pairs(&m.labels));
    // A node that is known by name only has a slot too.
    let node_name = pod.spec.as_ref().map_or(0, |s| s.node_name.len());
    labels + 2 * heap::block(node_name) + template_bytes(pod)
}

fn template_bytes(pod: &v1::Pod) -> usize {
    match templates::size_bytes(pod) {
        0 => 0,
        // As it is encoded, with the lengths of its parts.
        bytes => heap::block(bytes + bytes / 8) + PLACES,
    }
}

fn selector(wire: Option<&v1::LabelSelector>) -> usize {
    let Some(wire) = wire else { return 0 };
    let expression = |e: &v1::LabelSelectorRequirement| {
        let values = e
            .values
            .iter()
            .map(|v| heap::block(v.len()) + size_of::<Box<str>>());
        heap::block(e.key.len()) + values.sum::<usize>() + LABEL_PLACES
    };
    pairs(&wire.match_labels) + wire.match_expressions.iter().map(expression).sum::<usize>()
}

impl State {
    /// Room in memory for a batch, to be held until it is applied.
    ///
    /// # Errors
    /// [`Exhausted`] when there is none.
    pub(in crate::snapshot) fn room_for(&self, batch: &Batch) -> Result<Charge, Exhausted> {
        let account = self.footprint.account();
        let most = batch.bytes();
        if most == 0 {
            return account.charge(Part::Objects, 0);
        }
        // What objects take at most is known at once. What of that is there
        // already, and whether tables double, is looked at only when room is
        // short: tables are less than half of a state.
        let tables = self.footprint.memory().total() / 2;
        let bytes = match account.has_room(Part::Objects, most + tables) {
            true => most,
            false => match most.min(self.growth(batch)) {
                0 => 0,
                growth => growth + self.doubling(batch),
            },
        };
        account.charge(Part::Objects, bytes)
    }

    /// How much more its tables take at once with a batch.
    fn doubling(&self, batch: &Batch) -> usize {
        // A text takes a place at least.
        let (objects, texts) = (batch.len(), batch.bytes() / (LABEL_PLACES / 2));
        let ids = batch.objects().iter().map(Identity::of);
        let namespaces: BTreeSet<&str> = ids.map(|id| id.namespace).collect();
        let of_namespaces = namespaces.into_iter().map(|name| {
            let shard = self.namespaces.get(name).map(|s| Arc::clone(&s));
            shard.map_or(0, |s| s.namespace.read().doubling(objects, texts))
        });
        let of_namespaces: usize = of_namespaces.sum();
        of_namespaces + self.shared.read().nodes.doubling(objects, texts)
    }

    /// How much more it would take with a batch, at most: its additions come
    /// before its deletions. Looks at what is there already.
    fn growth(&self, batch: &Batch) -> usize {
        let growth = |object: &Object| {
            let id = Identity::of(object);
            let shard = self.namespaces.get(id.namespace).map(|s| Arc::clone(&s));
            let namespace = shard.as_ref().map(|shard| shard.namespace.read());
            let nodes = &self.shared.read().nodes;
            match (object, namespace) {
                (Object::Delete(_), _) => 0,
                (Object::Node(node), _) => of_node(node, object, nodes),
                (Object::Pod(pod), Some(namespace)) => of_pod(pod, id, &namespace, nodes),
                (_, Some(namespace)) => of_owner(object, id, &namespace),
                (_, None) => most(object),
            }
        };
        batch.objects().iter().map(growth).sum()
    }
}

fn of_node(node: &v1::Node, object: &Object, nodes: &Nodes) -> usize {
    let known = nodes.find(Identity::of(object).name);
    match known.and_then(|slot| nodes.get(slot)) {
        Some(old) => node_bytes(node).saturating_sub(node_bytes(&old.to_wire())),
        None => most(object),
    }
}

fn of_pod(pod: &v1::Pod, id: Identity<'_>, namespace: &Namespace, nodes: &Nodes) -> usize {
    let metadata = pod.metadata.as_ref();
    let labels = metadata.map_or(0, |m| match namespace.label_sets().find(&m.labels) {
        Some(_) => 0,
        None => pairs(&m.labels) + PLACES,
    });
    let node_name = pod.spec.as_ref().map_or("", |s| &s.node_name);
    let slot = match node_name.is_empty() || nodes.slot(node_name).is_some() {
        true => 0,
        false => 2 * heap::block(node_name.len()) + PLACES,
    };
    let rest = match namespace.pod_to_wire(id.namespace, id.name, nodes) {
        Some(old) if templates::are_same(&old, pod) => 0,
        Some(_) => template_bytes(pod),
        None => template_bytes(pod) + metadata.map_or(0, names) + PLACES,
    };
    labels + slot + rest
}

fn of_owner(object: &Object, id: Identity<'_>, namespace: &Namespace) -> usize {
    let Kind::Owner(kind) = id.kind else { return 0 };
    let old = namespace.owners().get_wire(kind, id.namespace, id.name);
    let old = old
        .and_then(|change| change.object)
        .map_or(0, |old| most(&old));
    most(object).saturating_sub(old)
}
