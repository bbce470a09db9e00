//! What pods ask for: owners, node selector, affinity, tolerations,
//! constraints, priority, and what they request of their node. Of all that, decisions
//! about other pods read only the requests. Pods of one workload share it: so
//! each distinct one is kept once, encoded, with its requests summed up.

use std::sync::Arc;

use prost::Message;

use super::shrink::shrink_list;
use super::symbols::{Symbol, Symbols};
use crate::account::heap;
use crate::matching::Requests;
use crate::proto::v1;

/// The number of a template, valid in the table that gave it out;
/// [`Symbol::ABSENT`] is that of pods that ask for nothing.
pub type TemplateId = Symbol;

/// The only field of a node that terms select by.
const NODE_NAME_FIELD: &str = "metadata.name";

/// How much room to encode in is kept.
const MAX_SCRATCH: usize = 4_096;

/// A table of templates, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    encoded: Symbols<[u8]>,
    /// By template: what its pods request, where they request anything.
    requests: Vec<Option<Arc<Requests>>>,
    /// What the requests have on the heap.
    request_bytes: usize,
    /// Room to encode in.
    scratch: Vec<u8>,
}

/// How affinity is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum KeptAffinity {
    None = 0,
    Whole = 1,
    /// Without the fields that say "on the node where I am": those of daemon
    /// sets, whose pods would share nothing otherwise.
    Pinned = 2,
}

impl Templates {
    /// The template that one more pod has, which requests this of its node.
    pub fn acquire(&mut self, pod: &v1::Pod, requests: Option<&Arc<Requests>>) -> TemplateId {
        if asks_nothing(pod) && requests.is_none() {
            return TemplateId::ABSENT;
        }
        self.scratch.clear();
        encode(pod, requests.map(|requests| &**requests), &mut self.scratch);
        let id = self.encoded.acquire(&self.scratch);
        if let Some(requests) = requests {
            self.keep(id, requests);
        }
        // There is one for each namespace.
        if self.scratch.capacity() > MAX_SCRATCH {
            self.scratch = Vec::new();
        }
        id
    }

    /// The template that a pod would have; `None` when no pod has it.
    pub fn find(&self, pod: &v1::Pod, requests: Option<&Arc<Requests>>) -> Option<TemplateId> {
        if asks_nothing(pod) && requests.is_none() {
            return Some(TemplateId::ABSENT);
        }
        let mut encoded = Vec::new();
        encode(pod, requests.map(|requests| &**requests), &mut encoded);
        self.encoded.find(&encoded)
    }

    /// Takes a pod away from its template.
    pub fn release(&mut self, id: TemplateId) {
        if id == TemplateId::ABSENT {
            return;
        }
        self.encoded.release(id);
        if !self.encoded.is_in_use(id)
            && let Some(slot) = self.requests.get_mut(id.index())
            && let Some(requests) = slot.take()
        {
            self.request_bytes -= bytes_of(&requests);
            while self.requests.last().is_some_and(Option::is_none) {
                self.requests.pop();
            }
            shrink_list(&mut self.requests);
        }
    }

    /// Keeps what the pods of a template request, if it is new.
    fn keep(&mut self, id: TemplateId, requests: &Arc<Requests>) {
        let index = id.index();
        if self.requests.len() <= index {
            self.requests.resize(index + 1, None);
        }
        if self.requests[index].is_none() {
            self.request_bytes += bytes_of(requests);
            self.requests[index] = Some(Arc::clone(requests));
        }
    }

    /// What a pod of a template requests of its node.
    pub fn requests(&self, id: TemplateId) -> Option<&Arc<Requests>> {
        match id == TemplateId::ABSENT {
            true => None,
            false => self.requests.get(id.index())?.as_ref(),
        }
    }

    /// Gives a pod what its template asks for. The pod names its node.
    pub fn fill(&self, id: TemplateId, pod: &mut v1::Pod) {
        if id == TemplateId::ABSENT {
            return;
        }
        let spec = pod.spec.get_or_insert_default();
        let metadata = pod.metadata.get_or_insert_default();
        decode(self.encoded.text(id), metadata, spec)
            .expect("what is kept was encoded by this table");
    }

    /// Whether pods of a template may run where they are and nowhere else.
    pub fn is_pinned(&self, id: TemplateId) -> bool {
        id != TemplateId::ABSENT
            && self.encoded.text(id).first() == Some(&(KeptAffinity::Pinned as u8))
    }

    /// How much its tables grow at once with this many more templates.
    pub fn doubling(&self, more: usize) -> usize {
        let (len, room) = (self.requests.len(), self.requests.capacity());
        let requests = heap::list::<Option<Arc<Requests>>>(room);
        self.encoded.doubling(more) + heap::doubling(requests, len, room, more)
    }

    /// The same as [`Self::memory_bytes`], with every template measured again.
    pub fn measured_bytes(&self) -> usize {
        let requests = self.requests.iter().flatten();
        self.memory_bytes() - self.encoded.memory_bytes() - self.request_bytes
            + self.encoded.measured_bytes()
            + requests.map(|requests| bytes_of(requests)).sum::<usize>()
    }

    /// What the table takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.encoded.memory_bytes()
            + self.request_bytes
            + heap::list::<Option<Arc<Requests>>>(self.requests.capacity())
            + heap::block(self.scratch.capacity())
    }
}

/// What requests take where they are shared.
fn bytes_of(requests: &Requests) -> usize {
    heap::shared(size_of::<Requests>()) + requests.heap_bytes()
}

/// How many bytes what a pod asks for takes, about.
pub fn size_bytes(pod: &v1::Pod) -> usize {
    fn all<M: Message>(messages: &[M]) -> usize {
        messages.iter().map(Message::encoded_len).sum()
    }
    let owners = pod
        .metadata
        .as_ref()
        .map_or(0, |m| all(&m.owner_references));
    let spec = pod.spec.as_ref().map_or(0, |spec| {
        let pairs = spec.node_selector.iter();
        pairs.map(|(k, v)| k.len() + v.len()).sum::<usize>()
            + spec.affinity.as_ref().map_or(0, Message::encoded_len)
            + all(&spec.tolerations)
            + all(&spec.topology_spread_constraints)
            + priority_alone(spec).encoded_len()
    });
    owners + spec + requests_size_bytes(pod)
}

/// How many bytes what a pod requests takes on the wire, about.
pub fn requests_size_bytes(pod: &v1::Pod) -> usize {
    fn all<M: Message>(messages: &[M]) -> usize {
        messages.iter().map(Message::encoded_len).sum()
    }
    let spec = pod.spec.as_ref().map_or(0, |spec| {
        let overhead = spec.overhead.iter();
        all(&spec.containers)
            + all(&spec.init_containers)
            + overhead
                .map(|(k, v)| k.len() + v.encoded_len())
                .sum::<usize>()
            + spec.resources.as_ref().map_or(0, Message::encoded_len)
    });
    let status = pod.status.as_ref().map_or(0, |status| {
        all(&status.container_statuses) + all(&status.init_container_statuses)
    });
    spec + status
}

/// Whether two valid pods ask for the same.
pub fn are_same(a: &v1::Pod, b: &v1::Pod) -> bool {
    let encoded = |pod: &v1::Pod| {
        let mut out = Vec::new();
        encode(pod, Some(&Requests::of_existing(pod)), &mut out);
        out
    };
    encoded(a) == encoded(b)
}

/// Whether a pod asks for nothing but what it may request.
fn asks_nothing(pod: &v1::Pod) -> bool {
    let owned = |m: &v1::ObjectMeta| !m.owner_references.is_empty();
    let asks = |s: &v1::PodSpec| {
        !s.node_selector.is_empty()
            || s.affinity.is_some()
            || !s.tolerations.is_empty()
            || !s.topology_spread_constraints.is_empty()
            || s.priority.is_some()
    };
    !pod.metadata.as_ref().is_some_and(owned) && !pod.spec.as_ref().is_some_and(asks)
}

/// Equal parts have equal bytes: maps are ordered. Starts with how affinity is
/// kept.
fn encode(pod: &v1::Pod, requests: Option<&Requests>, out: &mut Vec<u8>) {
    let none = v1::PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&none);
    let pinned = spec
        .affinity
        .as_ref()
        .and_then(|affinity| without_pin(affinity, &spec.node_name));
    match (&pinned, &spec.affinity) {
        (Some(rest), _) => {
            out.push(KeptAffinity::Pinned as u8);
            write(rest, out);
        }
        (None, Some(affinity)) => {
            out.push(KeptAffinity::Whole as u8);
            write(affinity, out);
        }
        (None, None) => out.push(KeptAffinity::None as u8),
    }
    let owners = pod.metadata.as_ref().map(|m| &*m.owner_references);
    write_all(owners.unwrap_or_default(), out);
    write_count(spec.node_selector.len(), out);
    for text in spec.node_selector.iter().flat_map(|(k, v)| [k, v]) {
        write(text, out);
    }
    write_all(&spec.tolerations, out);
    write_all(&spec.topology_spread_constraints, out);
    write_all(requests.and_then(Requests::to_wire).as_slice(), out);
    write(&priority_alone(spec), out);
}

/// A spec with the priority of another and nothing else.
fn priority_alone(spec: &v1::PodSpec) -> v1::PodSpec {
    v1::PodSpec {
        priority: spec.priority,
        ..v1::PodSpec::default()
    }
}

fn decode(
    mut from: &[u8],
    metadata: &mut v1::ObjectMeta,
    spec: &mut v1::PodSpec,
) -> Result<(), prost::DecodeError> {
    let (kept, rest) = from.split_first().unwrap_or((&0, &[]));
    from = rest;
    if *kept != KeptAffinity::None as u8 {
        let mut affinity = v1::Affinity::decode_length_delimited(&mut from)?;
        if *kept == KeptAffinity::Pinned as u8 {
            pin(&mut affinity, &spec.node_name);
        }
        spec.affinity = Some(affinity);
    }
    metadata.owner_references = read_all(&mut from)?;
    for _ in 0..prost::decode_length_delimiter(&mut from)? {
        let key = String::decode_length_delimited(&mut from)?;
        let value = String::decode_length_delimited(&mut from)?;
        spec.node_selector.insert(key, value);
    }
    spec.tolerations = read_all(&mut from)?;
    spec.topology_spread_constraints = read_all(&mut from)?;
    spec.containers = read_all(&mut from)?;
    spec.priority = v1::PodSpec::decode_length_delimited(&mut from)?.priority;
    Ok(())
}

/// Affinity without the fields that name a node, if each of its required terms
/// names this one and no other.
fn without_pin(affinity: &v1::Affinity, node_name: &str) -> Option<v1::Affinity> {
    let pins = |term: &v1::NodeSelectorTerm| match &*term.match_fields {
        [field] => {
            field.key == NODE_NAME_FIELD && field.operator == "In" && field.values == [node_name]
        }
        _ => false,
    };
    let required = affinity.node_affinity.as_ref()?;
    let required = required
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let terms = &required.node_selector_terms;
    if node_name.is_empty() || terms.is_empty() || !terms.iter().all(pins) {
        return None;
    }
    let mut rest = affinity.clone();
    required_terms(&mut rest).for_each(|term| term.match_fields.clear());
    Some(rest)
}

fn pin(affinity: &mut v1::Affinity, node_name: &str) {
    for term in required_terms(affinity) {
        term.match_fields = vec![v1::NodeSelectorRequirement {
            key: NODE_NAME_FIELD.to_owned(),
            operator: "In".to_owned(),
            values: vec![node_name.to_owned()],
        }];
    }
}

fn required_terms(affinity: &mut v1::Affinity) -> impl Iterator<Item = &mut v1::NodeSelectorTerm> {
    let required = affinity.node_affinity.iter_mut().filter_map(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_mut()
    });
    required.flat_map(|required| &mut required.node_selector_terms)
}

fn write_all<M: Message>(messages: &[M], out: &mut Vec<u8>) {
    write_count(messages.len(), out);
    messages.iter().for_each(|message| write(message, out));
}

fn write<M: Message>(message: &M, out: &mut Vec<u8>) {
    message
        .encode_length_delimited(out)
        .expect("a list takes everything");
}

fn write_count(count: usize, out: &mut Vec<u8>) {
    prost::encode_length_delimiter(count, out).expect("a list takes everything");
}

fn read_all<M: Message + Default>(from: &mut &[u8]) -> Result<Vec<M>, prost::DecodeError> {
    let count = prost::decode_length_delimiter(&mut *from)?;
    (0..count)
        .map(|_| M::decode_length_delimited(&mut *from))
        .collect()
}
