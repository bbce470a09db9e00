//! What objects take in memory where they are kept, at most.

use std::collections::BTreeMap;

use super::asks::Asks;
use super::compiled::Compiled;
use super::kind::metadata_of;
use super::owners::Selects;
use super::pod::CompiledPod;
use crate::account::heap;
use crate::matching::{PodTerm, Requested};
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

/// Returns what an object other than a pod takes in memory, at most, if nothing of it is
/// known.
pub fn most(object: &Object, compiled: &Compiled) -> usize {
    let Some(metadata) = metadata_of(object) else {
        return 0;
    };
    if let Compiled::Storage(storage) = compiled {
        let name = metadata.namespace.len() + metadata.name.len();
        return storage.heap_bytes() + 2 * heap::block(name) + PLACES;
    }
    let own = match (object, Selects::of(object)) {
        (Object::Node(node), _) => node_bytes(node),
        (Object::Namespace(_), _) => pairs(&metadata.labels),
        (_, Some((_, Selects::Labels(labels)))) => labels.map_or(0, pairs),
        (_, Some((_, Selects::Selector(wire)))) => selector(wire),
        (_, None) => 0,
    };
    let names = [&metadata.name, &metadata.uid, &metadata.namespace];
    own + name_bytes(names.map(String::len)) + PLACES
}

/// The same of a pod.
pub fn most_of_pod(pod: &CompiledPod) -> usize {
    let node_name = pod.node_name().len();
    // What is noted of a node for the pods that name it.
    let in_use = match node_name {
        0 => 0,
        _ => 2 * size_of::<Requested>(),
    };
    // A node that is known by name only has a slot too.
    label_bytes(pod)
        + 2 * heap::block(node_name)
        + in_use
        + pod.asks().map_or(0, template_bytes)
        + nominated_bytes(pod)
        + names(pod)
        + PLACES
}

/// Returns what the names of a pod take.
pub fn names(pod: &CompiledPod) -> usize {
    name_bytes([
        pod.name().len(),
        pod.life.uid_length(),
        pod.namespace().len(),
    ])
}

fn name_bytes(lengths: [usize; 3]) -> usize {
    // The namespace may be new.
    NEW_NAMESPACE + lengths.map(heap::block).iter().sum::<usize>()
}

fn pairs(labels: &BTreeMap<String, String>) -> usize {
    heap::pairs(labels) + labels.len() * LABEL_PLACES
}

/// Returns what the labels of a pod take.
pub fn label_bytes(pod: &CompiledPod) -> usize {
    let pair = |(key, value): (&[u8], &[u8])| {
        heap::block(key.len()) + heap::block(value.len()) + LABEL_PLACES
    };
    pod.labels().bytes().map(pair).sum()
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

/// Returns what a pod takes beside the rest if it is nominated to a node.
pub fn nominated_bytes(pod: &CompiledPod) -> usize {
    let node = pod.life.nominated_node().len();
    if node == 0 {
        return 0;
    }
    let names = pod.namespace().len() + pod.name().len() + pod.life.uid_length();
    let texts = pod
        .labels()
        .bytes()
        .map(|(k, v)| heap::block(k.len()) + heap::block(v.len()));
    let labels = heap::tree::<String, String>(texts.len()) + texts.sum::<usize>();
    let requests = pod.asks().map_or(0, request_bytes);
    let terms = pod.asks().map_or(0, term_bytes);
    2 * heap::block(names) + labels + 3 * heap::block(node) + requests + terms + 2 * PLACES
}

/// Returns what the template of pods takes that ask for this.
pub fn template_bytes(asks: &Asks) -> usize {
    let bytes = asks.size_bytes;
    // As it is encoded, with the lengths of its parts.
    heap::block(bytes + bytes / 8) + request_bytes(asks) + term_bytes(asks) + PLACES
}

/// Returns what the terms take by which a pod keeps others away: as the template has them, and
/// where they are counted.
fn term_bytes(asks: &Asks) -> usize {
    let terms = asks.keeps_away.as_deref().unwrap_or_default();
    2 * PodTerm::list_bytes(terms) + terms.len() * PLACES
}

fn request_bytes(asks: &Asks) -> usize {
    REQUEST_COPIES * asks.request_bytes
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
