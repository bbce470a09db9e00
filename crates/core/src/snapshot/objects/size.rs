//! Upper bounds of the bytes of objects in memory where they are kept.

use prost::Message;

use super::kind::with_message;
use super::pod::CompiledPod;
use super::requirements::Requirements;
use crate::account::heap::{self, OnHeap};
use crate::matching::Requested;
use crate::proto::v1::change::Object;

/// The bytes of entries in lists and maps for an object of any kind, with their spare room.
pub const PLACES: usize = 512;

/// The bytes of entries for a label: its pair, and the entries of two strings.
const LABEL_PLACES: usize = 160;

/// The most times that the bytes of a pod's requests are kept: encoded, summed up, and in the sum
/// of its node.
const REQUEST_COPIES: usize = 12;

/// The most memory of a namespace without its name and contents.
pub const NEW_NAMESPACE: usize = 2_048;

/// The most times by which an object other than a pod is larger where it is kept than on the wire:
/// it is largest when all its texts are short.
const GROWTH: usize = 16;

/// Returns the most bytes of an object other than a pod in memory, if no part of it is known yet.
pub fn most(object: &Object) -> usize {
    with_message!(
        object,
        message => NEW_NAMESPACE + PLACES + GROWTH * message.encoded_len(),
        _deleted => 0
    )
}

/// Returns the most bytes of a pod in memory.
pub fn most_of_pod(pod: &CompiledPod) -> usize {
    let node_name = pod.node_name().len();
    // The named node has an entry for the pods that name it.
    let in_use = match node_name {
        0 => 0,
        _ => 2 * size_of::<Requested>(),
    };
    // A node that is only named has a slot, too.
    label_bytes(pod)
        + 2 * heap::block(node_name)
        + in_use
        + pod.requirements().map_or(0, |it| template_bytes(it))
        + nominated_bytes(pod)
        + names(pod)
        + PLACES
}

/// Returns the bytes of a pod's names.
pub fn names(pod: &CompiledPod) -> usize {
    let names = [
        pod.name().len(),
        pod.life.uid_length(),
        pod.namespace().len(),
    ];
    // The namespace may be new.
    NEW_NAMESPACE + names.map(heap::block).iter().sum::<usize>()
}

/// Returns the bytes of a pod's labels.
pub fn label_bytes(pod: &CompiledPod) -> usize {
    let pair = |(key, value): (&String, &String)| {
        heap::block(key.len()) + heap::block(value.len()) + LABEL_PLACES
    };
    pod.labels().iter().map(pair).sum()
}

/// Returns the additional bytes of a pod that is nominated to a node.
pub fn nominated_bytes(pod: &CompiledPod) -> usize {
    let node = pod.life.nominated_node().len();
    if node == 0 {
        return 0;
    }
    let names = pod.namespace().len() + pod.name().len() + pod.life.uid_length();
    let texts = pod
        .labels()
        .iter()
        .map(|(k, v)| heap::block(k.len()) + heap::block(v.len()));
    let labels = heap::tree::<String, String>(texts.len()) + texts.sum::<usize>();
    let requests = pod.requirements().map_or(0, |it| request_bytes(it));
    let terms = pod.requirements().map_or(0, |it| term_bytes(it));
    2 * heap::block(names) + labels + 3 * heap::block(node) + requests + terms + 2 * PLACES
}

/// Returns the bytes of a template with these requirements.
pub fn template_bytes(of: &Requirements) -> usize {
    let bytes = of.size_bytes;
    // The encoded form has the lengths of its parts, too.
    heap::block(bytes + bytes / 8) + request_bytes(of) + term_bytes(of) + PLACES
}

/// Returns the bytes of a pod's terms about other pods: in the template, and where they are
/// counted.
fn term_bytes(of: &Requirements) -> usize {
    let lists = of.read.keeps_away.iter().chain(&of.read.scored);
    lists
        .map(|terms| 2 * (size_of_val(&**terms) + terms.heap_bytes()) + terms.len() * PLACES)
        .sum()
}

fn request_bytes(of: &Requirements) -> usize {
    REQUEST_COPIES * of.request_bytes
}
