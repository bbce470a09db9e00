//! The requirements of pods: owners, node selector, affinity, tolerations, constraints, priority,
//! volumes, and requests. Pods of one workload have the same, so each distinct one is stored once:
//! encoded, because decisions about other pods read only a few of them, which are compiled.

use std::sync::Arc;

use prost::Message;

use super::interner::Interner;
use super::reservation::is_reservation;
use crate::matching::{
    self, PodTerm, Requests, RequestsByVersion, Resizing, UsedStorage, absolute,
};
use crate::proto::v1;

/// The only field of a node that terms select by.
const NODE_NAME_FIELD: &str = "metadata.name";

/// The number of templates that are copied to change one of them.
const BLOCK: usize = 16;

/// The requirements of a pod.
#[derive(Debug)]
pub struct Requirements {
    /// A pod with only the requirements, encoded.
    encoded: Box<[u8]>,
    /// The parts that decisions about other pods read.
    pub(super) read: ReadRequirements,
    /// True if they may depend on the name of the pod, or on the node that it names.
    pub(super) is_own: bool,
    /// True if the pod requires the node that it is on, and no other. The stored affinity then lacks
    /// the name of the node. Pods of a daemon set have such fields, and could share nothing with
    /// them.
    is_pinned: bool,
}

/// The requirements of a pod that decisions about other pods read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadRequirements {
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

/// The requirements of a pod by the rules of a version of Kubernetes; `None` if it has none.
type UnderVersion = (Resizing, Option<Arc<Requirements>>);

/// The requirements of a pod, by the rules of each version of Kubernetes.
#[derive(Debug, Clone, Default)]
pub struct RequirementsByVersion {
    /// The requirements by the rules of the newest version, or of the chosen one.
    pub chosen: Option<Arc<Requirements>>,
    /// The requirements by the rules of other versions, where they differ and no version was chosen
    /// yet.
    others: Option<Arc<[UnderVersion]>>,
}

impl RequirementsByVersion {
    /// The requirements of a valid pod with these requests to its node, and these terms that keep
    /// other pods away.
    pub fn new(
        pod: &v1::Pod,
        requests: RequestsByVersion,
        keeps_away: Option<Arc<[PodTerm]>>,
    ) -> Self {
        let of = |requests| Requirements::new(pod, requests, keeps_away.clone()).map(Arc::new);
        let others = requests.others.into_iter();
        let others = others.map(|(resizing, requests)| (resizing, of(requests)));
        let others: Arc<[_]> = others.collect();
        Self {
            chosen: of(requests.newest),
            others: Some(others).filter(|others| !others.is_empty()),
        }
    }

    /// Returns the bytes that are stored.
    pub fn bytes(&self) -> usize {
        self.chosen.as_ref().map_or(0, |it| it.encoded.len())
    }

    /// Returns whether the versions differ.
    pub fn differs(&self) -> bool {
        self.others.is_some()
    }

    /// Returns the requirements by these rules.
    pub fn under(&self, resizing: Resizing) -> Self {
        let others = self.others.iter().flat_map(|others| &**others);
        let mut others = others.filter(|(other, _)| *other == resizing);
        let chosen = others.next().map_or(&self.chosen, |(_, chosen)| chosen);
        Self {
            chosen: chosen.clone(),
            others: None,
        }
    }
}

impl Requirements {
    /// Returns the requirements of a valid pod; `None` if it has none.
    fn new(pod: &v1::Pod, requests: Requests, keeps_away: Option<Arc<[PodTerm]>>) -> Option<Self> {
        let (no_metadata, no_spec) = (v1::ObjectMeta::default(), v1::PodSpec::default());
        let metadata = pod.metadata.as_ref().unwrap_or(&no_metadata);
        let spec = pod.spec.as_ref().unwrap_or(&no_spec);
        let pinned = spec
            .affinity
            .as_ref()
            .and_then(|affinity| without_pin(affinity, &spec.node_name));
        let is_pinned = pinned.is_some();
        let stored = v1::PodSpec {
            node_selector: spec.node_selector.clone(),
            affinity: pinned.or_else(|| spec.affinity.clone()),
            tolerations: spec.tolerations.clone(),
            topology_spread_constraints: spec.topology_spread_constraints.clone(),
            containers: requests.to_wire().into_iter().collect(),
            priority: spec.priority,
            preemption_policy: spec.preemption_policy.clone(),
            volumes: matching::kept_volumes(pod, is_reservation(&metadata.name)),
            ..v1::PodSpec::default()
        };
        if metadata.owner_references.is_empty() && stored == v1::PodSpec::default() {
            return None;
        }
        let storage = UsedStorage::of(&stored.volumes).map(Arc::new);
        let stored = v1::Pod {
            metadata: Some(v1::ObjectMeta {
                owner_references: metadata.owner_references.clone(),
                ..v1::ObjectMeta::default()
            }),
            spec: Some(stored),
            status: None,
        };
        Some(Self {
            encoded: stored.encode_to_vec().into(),
            is_own: selects_by_name(spec)
                || storage.as_ref().is_some_and(|it| !it.claims.is_empty()),
            is_pinned,
            read: ReadRequirements {
                requests: (!requests.is_empty()).then(|| Arc::new(requests)),
                keeps_away,
                scored: PodTerm::scored(pod),
                storage,
                priority: spec.priority.unwrap_or(0),
            },
        })
    }

    /// Writes the requirements into a pod. The pod has its name, and names its node.
    pub fn fill(&self, pod: &mut v1::Pod) {
        let stored = v1::Pod::decode(&*self.encoded).expect("what is stored was encoded here");
        let metadata = pod.metadata.get_or_insert_default();
        metadata.owner_references = stored.metadata.unwrap_or_default().owner_references;
        let spec = pod.spec.get_or_insert_default();
        *spec = v1::PodSpec {
            node_name: std::mem::take(&mut spec.node_name),
            ..stored.spec.unwrap_or_default()
        };
        if let Some(affinity) = spec.affinity.as_mut().filter(|_| self.is_pinned) {
            let pin = v1::NodeSelectorRequirement {
                key: NODE_NAME_FIELD.to_owned(),
                operator: "In".to_owned(),
                values: vec![spec.node_name.clone()],
            };
            set_fields(affinity, &[pin]);
        }
        for volume in &mut spec.volumes {
            let source = volume.volume_source.as_mut();
            if let Some(claim) = source.and_then(|it| it.persistent_volume_claim.as_mut()) {
                claim.claim_name = absolute(&claim.claim_name, &metadata.name).into_owned();
            }
        }
    }
}

/// Returns whether terms of a pod select nodes by their names.
fn selects_by_name(spec: &v1::PodSpec) -> bool {
    let mut terms = spec.affinity.iter().flat_map(required_terms);
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
    // No client may name a node without a name: pods with and without a pin share nothing.
    set_fields(&mut rest, &[v1::NodeSelectorRequirement::default()]);
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

/// The number of a template, valid in the table that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TemplateId(u32);

impl TemplateId {
    /// The template of pods without requirements.
    pub const ABSENT: Self = Self(u32::MAX);
}

/// A table of templates: distinct requirements, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    all: Interner<Arc<Requirements>, BLOCK>,
}

impl Templates {
    /// The template of one more pod, which has these requirements, if any.
    pub fn acquire(&mut self, requirements: Option<&Arc<Requirements>>) -> TemplateId {
        let Some(requirements) = requirements else {
            return TemplateId::ABSENT;
        };
        let hash = self.all.hash(&requirements.encoded);
        let same = |known: &Arc<Requirements>| known.encoded == requirements.encoded;
        let Some(number) = self.all.find(hash, same) else {
            return TemplateId(self.all.insert(hash, Arc::clone(requirements)));
        };
        self.all.use_again(number);
        TemplateId(number)
    }

    /// Returns whether pods of a template have these requirements.
    pub fn has(&self, id: TemplateId, requirements: Option<&Arc<Requirements>>) -> bool {
        self.get(id).map(|it| &it.encoded) == requirements.map(|it| &it.encoded)
    }

    /// Removes a pod from its template.
    pub fn release(&mut self, id: TemplateId) {
        if id != TemplateId::ABSENT {
            self.all.release(id.0);
        }
    }

    /// The requirements of the pods of a template, if they have any.
    pub fn get(&self, id: TemplateId) -> Option<&Requirements> {
        if id == TemplateId::ABSENT {
            return None;
        }
        Some(self.all.get(id.0))
    }

    /// The requirements of the pods of a template that decisions about other pods read.
    pub fn read(&self, id: TemplateId) -> Option<&ReadRequirements> {
        self.get(id).map(|requirements| &requirements.read)
    }

    /// Returns whether pods of a template may run only where they are.
    pub fn is_pinned(&self, id: TemplateId) -> bool {
        self.get(id).is_some_and(|it| it.is_pinned)
    }
}
