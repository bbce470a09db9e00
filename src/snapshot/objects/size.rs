//! What objects take in memory where they are kept, at most.

use std::collections::BTreeMap;

use super::kind::metadata_of;
use super::parts::{Parts, Selects};
use super::templates;
use crate::account::heap;
use crate::matching::Requested;
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// What places in lists and maps take for an object of any kind, with the room
/// that those have spare.
pub const PLACES: usize = 512;

/// The same for a label: its pair, and the entries of two strings.
pub const LABEL_PLACES: usize = 160;

/// The same for a resource that a node has or uses.
const RESOURCE_PLACES: usize = 64;

/// How many times the bytes of what a pod requests are kept, at most: encoded,
/// summed up, and in the sum of its node.
const REQUEST_COPIES: usize = 12;

/// The most memory of a namespace without its name and contents.
pub const NEW_NAMESPACE: usize = 2_048;

/// What an object takes in memory, at most, if nothing of it is known.
pub fn most(object: &Object) -> usize {
    let Some(metadata) = metadata_of(object) else {
        return 0;
    };
    let own = match Parts::of(object) {
        Parts::Node(node) => node_bytes(node),
        Parts::Pod(pod) => pod_bytes(pod),
        Parts::Owner(_, Selects::Labels(labels)) => labels.map_or(0, pairs),
        Parts::Owner(_, Selects::Selector(wire)) => selector(wire),
        Parts::Delete(_) => 0,
    };
    own + names(metadata) + PLACES
}

pub fn names(metadata: &v1::ObjectMeta) -> usize {
    // The namespace may be new.
    heap::block(metadata.name.len())
        + heap::block(metadata.uid.len())
        + NEW_NAMESPACE
        + heap::block(metadata.namespace.len())
}

pub fn pairs(labels: &BTreeMap<String, String>) -> usize {
    heap::pairs(labels) + labels.len() * LABEL_PLACES
}

pub fn node_bytes(node: &v1::Node) -> usize {
    let taints = node.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
    let taint =
        |taint: &v1::Taint| heap::block(taint.key.len()) + heap::block(taint.value.len()) + 40;
    let metadata = node.metadata.as_ref();
    let name = metadata.map_or(0, |m| 3 * heap::block(m.name.len()));
    let status = node.status.as_ref();
    let resource = |name: &String| heap::block(name.len()) + RESOURCE_PLACES;
    let allocatable = status.map_or(0, |s| s.allocatable.keys().map(resource).sum());
    name + metadata.map_or(0, |m| pairs(&m.labels))
        + taints.iter().map(taint).sum::<usize>()
        + allocatable
}

fn pod_bytes(pod: &v1::Pod) -> usize {
    let labels = pod.metadata.as_ref().map_or(0, |m| pairs(&m.labels));
    // A node that is known by name only has a slot too.
    let node_name = pod.spec.as_ref().map_or(0, |s| s.node_name.len());
    labels
        + 2 * heap::block(node_name)
        + in_use_bytes(node_name)
        + template_bytes(pod)
        + nominated_bytes(pod)
}

/// What a pod takes beside the rest if it is nominated to a node.
pub fn nominated_bytes(pod: &v1::Pod) -> usize {
    let node = pod
        .status
        .as_ref()
        .map_or(0, |s| s.nominated_node_name.len());
    if node == 0 {
        return 0;
    }
    let texts = |m: &v1::ObjectMeta| {
        let names = m.namespace.len() + m.name.len() + m.uid.len();
        2 * heap::block(names) + heap::texts(&m.labels)
    };
    let requests = REQUEST_COPIES * templates::requests_size_bytes(pod);
    pod.metadata.as_ref().map_or(0, texts) + 3 * heap::block(node) + requests + 2 * PLACES
}

/// What is noted of a node for the pods that name it.
fn in_use_bytes(node_name: usize) -> usize {
    if node_name == 0 {
        0
    } else {
        2 * size_of::<Requested>()
    }
}

pub fn template_bytes(pod: &v1::Pod) -> usize {
    match templates::size_bytes(pod) {
        0 => 0,
        // As it is encoded, with the lengths of its parts.
        bytes => {
            let requests = REQUEST_COPIES * templates::requests_size_bytes(pod);
            heap::block(bytes + bytes / 8) + requests + PLACES
        }
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
