//! The requirements of a pod: owners, node selector, affinity, tolerations, constraints, priority,
//! and requests. They are kept encoded, because decisions about other pods read only the requests.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use prost::Message;

use super::reservation::is_reservation;
use crate::matching::{self, PodTerm, Requests, UsedStorage, absolute};
use crate::proto::v1;

/// The only field of a node that terms select by.
const NODE_NAME_FIELD: &str = "metadata.name";

/// The requirements of a pod in their kept form.
#[derive(Debug)]
pub struct Asks {
    pub(super) encoded: Box<[u8]>,
    /// The parts that decisions about other pods read.
    pub(super) read: ReadAsks,
    /// True if the requirements may depend on the name of the pod, or on the node that it names.
    pub(super) is_own: bool,
    /// The form that a journal writes.
    fields: OnceLock<AskedFields>,
}

/// The requirements of a pod that decisions about other pods read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadAsks {
    /// The requests of the pod, if it has any.
    pub requests: Option<Arc<Requests>>,
    /// The terms of its required anti-affinity, if it has any.
    pub keeps_away: Option<Arc<[PodTerm]>>,
    /// The terms by which kube-scheduler scores nodes for other pods, if it has any.
    pub scored: Option<Arc<[PodTerm]>>,
    /// The storage that the pod uses, if decisions depend on it.
    pub storage: Option<Arc<UsedStorage>>,
    /// The priority of the pod.
    pub priority: i32,
}

/// The requirements of a pod, as fields of its messages.
#[derive(Debug)]
pub struct AskedFields {
    /// The fields of its metadata.
    pub metadata: Box<[u8]>,
    /// The fields of its spec.
    pub spec: Box<[u8]>,
}

/// The form in which affinity is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum KeptAffinity {
    None = 0,
    Whole = 1,
    /// The affinity without the fields that name the pod's node. Pods of a daemon set have such
    /// fields, and could share nothing with them.
    Pinned = 2,
}

impl Asks {
    /// Returns the requirements of a valid pod with these requests to its node and these terms that
    /// keep other pods away; `None` if it has no requirements.
    pub fn of(
        pod: &v1::Pod,
        requests: Requests,
        keeps_away: Option<Arc<[PodTerm]>>,
    ) -> Option<Self> {
        let requests = (!requests.is_empty()).then(|| Arc::new(requests));
        if asks_nothing(pod) && requests.is_none() {
            return None;
        }
        let volumes = kept_volumes(pod);
        let storage = UsedStorage::of(&volumes).map(Arc::new);
        let mut encoded = Vec::new();
        encode(pod, requests.as_deref(), &volumes, &mut encoded);
        Some(Self {
            encoded: encoded.into(),
            is_own: selects_by_name(pod)
                || storage.as_ref().is_some_and(|it| !it.claims.is_empty()),
            read: ReadAsks {
                requests,
                keeps_away,
                scored: PodTerm::scored(pod),
                storage,
                priority: pod.spec.as_ref().map_or(0, priority_of),
            },
            fields: OnceLock::new(),
        })
    }

    /// Returns the requirements of a pod of this name on this node, as fields. They are made when
    /// they are first needed: pods share only fields that depend on neither.
    pub fn fields(&self, name: &str, node_name: &str) -> &AskedFields {
        self.fields.get_or_init(|| {
            let mut pod = v1::Pod::default();
            let spec = pod.spec.get_or_insert_default();
            node_name.clone_into(&mut spec.node_name);
            let metadata = pod.metadata.get_or_insert_default();
            name.clone_into(&mut metadata.name);
            fill(&self.encoded, &mut pod);
            let mut spec = pod.spec.unwrap_or_default();
            spec.node_name.clear();
            let mut metadata = pod.metadata.unwrap_or_default();
            metadata.name.clear();
            AskedFields {
                metadata: metadata.encode_to_vec().into(),
                spec: spec.encode_to_vec().into(),
            }
        })
    }
}

/// Returns the volumes of a pod that are kept.
fn kept_volumes(pod: &v1::Pod) -> Vec<v1::Volume> {
    let name = pod.metadata.as_ref().map_or("", |metadata| &metadata.name);
    matching::kept_volumes(pod, is_reservation(name))
}

/// The priority of a pod.
pub fn priority_of(spec: &v1::PodSpec) -> i32 {
    spec.priority.unwrap_or(0)
}

/// Returns whether a pod is kept as one that requires the node that it is on.
pub fn is_pinned(encoded: &[u8]) -> bool {
    encoded.first() == Some(&(KeptAffinity::Pinned as u8))
}

/// Writes the kept requirements into a pod. The pod has its name, and names its node.
pub fn fill(encoded: &[u8], pod: &mut v1::Pod) {
    let spec = pod.spec.get_or_insert_default();
    let metadata = pod.metadata.get_or_insert_default();
    decode(encoded, metadata, spec).expect("what is kept was encoded here");
}

/// Returns the approximate bytes of a pod's requirements.
pub fn size_bytes(pod: &v1::Pod) -> usize {
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
            + all(&kept_volumes(pod))
    });
    owners + spec + requests_size_bytes(pod)
}

/// Returns the approximate bytes of a pod's requests on the wire.
fn requests_size_bytes(pod: &v1::Pod) -> usize {
    let spec = pod.spec.as_ref().map_or(0, |spec| {
        all(&spec.containers)
            + all(&spec.init_containers)
            + quantities(&spec.overhead)
            + spec.resources.as_ref().map_or(0, Message::encoded_len)
    });
    let status = pod.status.as_ref().map_or(0, |status| {
        all(&status.container_statuses)
            + all(&status.init_container_statuses)
            + quantities(&status.allocated_resources)
            + status.resources.as_ref().map_or(0, Message::encoded_len)
    });
    spec + status
}

fn all<M: Message>(messages: &[M]) -> usize {
    messages.iter().map(Message::encoded_len).sum()
}

fn quantities(all: &BTreeMap<String, v1::Quantity>) -> usize {
    let all = all.iter();
    all.map(|(name, quantity)| name.len() + quantity.encoded_len())
        .sum()
}

/// Returns whether a pod has no requirements except requests.
fn asks_nothing(pod: &v1::Pod) -> bool {
    let owned = |m: &v1::ObjectMeta| !m.owner_references.is_empty();
    let asks = |s: &v1::PodSpec| {
        !s.node_selector.is_empty()
            || s.affinity.is_some()
            || !s.tolerations.is_empty()
            || !s.topology_spread_constraints.is_empty()
            || s.priority.is_some()
            || !kept_volumes(pod).is_empty()
    };
    !pod.metadata.as_ref().is_some_and(owned) && !pod.spec.as_ref().is_some_and(asks)
}

/// Encodes requirements, beginning with the form of affinity. Equal ones have equal bytes, because
/// maps are ordered.
fn encode(pod: &v1::Pod, requests: Option<&Requests>, volumes: &[v1::Volume], out: &mut Vec<u8>) {
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
    write_all(volumes, out);
}

/// A spec with only the priority of another, and what that priority is for.
fn priority_alone(spec: &v1::PodSpec) -> v1::PodSpec {
    v1::PodSpec {
        priority: spec.priority,
        preemption_policy: spec.preemption_policy.clone(),
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
            let pin = v1::NodeSelectorRequirement {
                key: NODE_NAME_FIELD.to_owned(),
                operator: "In".to_owned(),
                values: vec![spec.node_name.clone()],
            };
            set_fields(&mut affinity, &[pin]);
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
    let alone = v1::PodSpec::decode_length_delimited(&mut from)?;
    (spec.priority, spec.preemption_policy) = (alone.priority, alone.preemption_policy);
    spec.volumes = read_all(&mut from)?;
    for volume in &mut spec.volumes {
        let source = volume.volume_source.as_mut();
        if let Some(claim) = source.and_then(|it| it.persistent_volume_claim.as_mut()) {
            claim.claim_name = absolute(&claim.claim_name, &metadata.name).into_owned();
        }
    }
    Ok(())
}

/// Returns whether terms of a pod select nodes by their names.
fn selects_by_name(pod: &v1::Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let mut terms = affinity.into_iter().flat_map(required_terms);
    terms.any(|term| !term.match_fields.is_empty())
}

/// Affinity without the fields that name a node, if each of its required terms names this node and
/// no other.
fn without_pin(affinity: &v1::Affinity, node_name: &str) -> Option<v1::Affinity> {
    let pins = |term: &v1::NodeSelectorTerm| match &*term.match_fields {
        [field] => {
            field.key == NODE_NAME_FIELD && field.operator == "In" && field.values == [node_name]
        }
        _ => false,
    };
    let terms = required_terms(affinity);
    if node_name.is_empty() || terms.is_empty() || !terms.iter().all(pins) {
        return None;
    }
    let mut rest = affinity.clone();
    set_fields(&mut rest, &[]);
    Some(rest)
}

fn required_terms(affinity: &v1::Affinity) -> &[v1::NodeSelectorTerm] {
    let affinity = affinity.node_affinity.as_ref();
    let required = affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    required.map_or(&[], |required| &required.node_selector_terms)
}

/// Replaces the fields in each required term.
fn set_fields(affinity: &mut v1::Affinity, fields: &[v1::NodeSelectorRequirement]) {
    let affinity = affinity.node_affinity.as_mut();
    let required = affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_mut()
    });
    for term in required
        .into_iter()
        .flat_map(|it| &mut it.node_selector_terms)
    {
        term.match_fields = fields.to_vec();
    }
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
