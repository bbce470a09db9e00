//! Pods: compiled from a message once, stored as a handful of integers, and written back as a
//! message.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use prost::Message;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::compiled::check_metadata;
use super::kind::ObjectKind;
use super::label_sets::LabelSetId;
use super::requirements::{Requirements, RequirementsByVersion, TemplateId};
use super::slots::Slot;
use crate::limits::{Limit, Limits};
use crate::matching::{
    Path, PodTerm, Requests, RequestsByVersion, Resizing, Violations, check_claim_names, names,
};
use crate::proto::v1;

/// The most bytes of requirements that a [`PodCompiler`] remembers.
const MAX_KNOWN_BYTES: usize = 256 << 10;

/// A pod that exists, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    /// The pod's labels.
    pub labels: LabelSetId,
    /// The node that it names, if any.
    pub node: Option<Slot>,
    /// The pod's identity and phase.
    pub life: Life,
}

/// A valid pod of a change.
#[derive(Debug, Clone)]
pub struct CompiledPod {
    namespace: String,
    name: String,
    node_name: String,
    labels: BTreeMap<String, String>,
    /// The pod's identity and phase, without its template.
    pub life: Life,
    /// The pod's requirements, if it has any.
    requirements: RequirementsByVersion,
}

/// Checks and compiles the pods of a batch. Pods of a workload have the same requirements, which are
/// compiled once.
pub struct PodCompiler<'l> {
    limits: &'l Limits,
    /// The requirements of valid pods, by a message with all that pods do not have for themselves.
    known: HashMap<Box<[u8]>, RequirementsByVersion>,
    known_bytes: usize,
    /// The message of the last pod: the next one uses its room.
    rest: Vec<u8>,
}

impl<'l> PodCompiler<'l> {
    /// A compiler that knows no requirements yet.
    pub fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            known: HashMap::new(),
            known_bytes: 0,
            rest: Vec::new(),
        }
    }

    /// Checks and compiles a pod, which is at `path`. `None` if it has a fault.
    pub fn compile(
        &mut self,
        mut pod: v1::Pod,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<CompiledPod> {
        let before = faults.total();
        check_own_parts(&pod, self.limits, path, faults);
        let compiled = CompiledPod::take(&mut pod);
        self.rest.clear();
        pod.encode_raw(&mut self.rest);
        let requirements = match self.known.get(&*self.rest) {
            Some(known) => known.clone(),
            None => self.requirements(pod, &compiled, path, faults),
        };
        (faults.total() == before).then_some(CompiledPod {
            requirements,
            ..compiled
        })
    }

    /// Checks and compiles the requirements of a pod, and remembers them if they hold for all pods
    /// with the same rest.
    fn requirements(
        &mut self,
        mut rest: v1::Pod,
        of: &CompiledPod,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> RequirementsByVersion {
        let before = faults.total();
        of.put_names(&mut rest);
        if let Some(spec) = &rest.spec {
            check_claim_names(spec, path.field("spec"), faults);
        }
        let requests = RequestsByVersion::compile(&rest, path, faults);
        let keeps_away = PodTerm::compile_existing(&rest, path, faults);
        if faults.total() > before {
            return RequirementsByVersion::default();
        }
        let compiled = RequirementsByVersion::new(&rest, requests, keeps_away);
        let (spec, limit) = (path.field("spec"), Limit::PodSpecBytes);
        if !faults.within(spec, self.limits, limit, compiled.bytes()) {
            return RequirementsByVersion::default();
        }
        let is_own = compiled.chosen.as_ref().is_some_and(|it| it.is_own);
        let bytes = self.known_bytes + self.rest.len();
        if bytes <= MAX_KNOWN_BYTES && !is_own {
            self.known_bytes = bytes;
            self.known.insert((*self.rest).into(), compiled.clone());
        }
        compiled
    }
}

/// Checks the parts that each pod has for itself.
fn check_own_parts(pod: &v1::Pod, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    check_metadata(ObjectKind::Pod, pod.metadata.as_ref(), limits, path, faults);
    let node_name = pod.spec.as_ref().map_or("", |s| &s.node_name);
    if !node_name.is_empty() {
        let path = path.field("spec.nodeName");
        names::check_node_name(node_name, limits.node_names, path, faults);
    }
    let status = pod.status.as_ref();
    let nominated = status.map_or("", |s| &s.nominated_node_name);
    if !nominated.is_empty() {
        let path = path.field("status.nominatedNodeName");
        names::check_node_name(nominated, limits.node_names, path, faults);
    }
    let phase = status.map_or("", |s| &*s.phase);
    if Phase::parse(phase).is_none() {
        let known = "must be Pending, Running, Succeeded, Failed or Unknown";
        faults.unknown_value(path.field("status.phase"), phase, known);
    }
}

impl CompiledPod {
    /// A pod of the snapshot's own making, which needs no check.
    pub fn trusted(mut pod: v1::Pod) -> Self {
        let compiled = Self::take(&mut pod);
        compiled.put_names(&mut pod);
        let keeps_away =
            PodTerm::compile_existing(&pod, Path::root("pod"), &mut Violations::default());
        let requests = RequestsByVersion::of(&pod);
        Self {
            requirements: RequirementsByVersion::new(&pod, requests, keeps_away),
            ..compiled
        }
    }

    /// Takes the parts that each pod has for itself out of a message, without requirements.
    fn take(pod: &mut v1::Pod) -> Self {
        let mut taken = Self {
            namespace: String::new(),
            name: String::new(),
            node_name: String::new(),
            labels: BTreeMap::new(),
            life: Life::of(pod),
            requirements: RequirementsByVersion::default(),
        };
        if let Some(metadata) = &mut pod.metadata {
            taken.namespace = std::mem::take(&mut metadata.namespace);
            taken.name = std::mem::take(&mut metadata.name);
            taken.labels = std::mem::take(&mut metadata.labels);
            *metadata = v1::ObjectMeta {
                owner_references: std::mem::take(&mut metadata.owner_references),
                ..v1::ObjectMeta::default()
            };
        }
        if taken.namespace.is_empty() {
            taken.namespace = names::DEFAULT_NAMESPACE.to_owned();
        }
        if let Some(spec) = &mut pod.spec {
            taken.node_name = std::mem::take(&mut spec.node_name);
        }
        if let Some(status) = &mut pod.status {
            status.phase.clear();
            status.nominated_node_name.clear();
        }
        taken
    }

    /// Gives a message the names of the pod and of its node.
    fn put_names(&self, pod: &mut v1::Pod) {
        let metadata = pod.metadata.get_or_insert_default();
        self.name.clone_into(&mut metadata.name);
        let spec = pod.spec.get_or_insert_default();
        self.node_name.clone_into(&mut spec.node_name);
    }

    /// The pod for the wire, as it is stored.
    pub fn to_wire(&self) -> v1::Pod {
        let metadata = v1::ObjectMeta {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            labels: self.labels.clone(),
            ..v1::ObjectMeta::default()
        };
        self.life.to_wire(
            metadata,
            &self.node_name,
            self.requirements().map(|it| &**it),
        )
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the pod's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The node that the pod is on; empty if it is on none.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// The node that the pod is nominated to, if it is on none and has not finished.
    pub fn nominated_to(&self) -> Option<&str> {
        let node = self.life.nominated_node();
        let may_be = !node.is_empty() && self.node_name.is_empty() && self.life.takes_room();
        may_be.then_some(node)
    }

    /// The pod's labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// Returns the pod's requirements, if it has any.
    pub fn requirements(&self) -> Option<&Arc<Requirements>> {
        self.requirements.chosen.as_ref()
    }

    /// Returns whether the pod's requests depend on the version of Kubernetes.
    pub fn differs_by_version(&self) -> bool {
        self.requirements.differs()
    }

    /// The same pod with its requests by these rules.
    pub fn under(&self, resizing: Resizing) -> Self {
        Self {
            requirements: self.requirements.under(resizing),
            ..self.clone()
        }
    }

    /// Returns the pod's requests to its node, if it has any.
    pub fn requests(&self) -> Option<&Arc<Requests>> {
        self.requirements()?.read.requests.as_ref()
    }
}

/// A pod's identity, its phase, and its requirements when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    pub(super) uid: Uuid,
    /// The pod's phase.
    pub phase: Phase,
    /// The pod's requirements.
    pub template: TemplateId,
    /// The fields that few pods have.
    pub(super) rare: Option<Arc<Rare>>,
}

/// The fields that few pods have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rare {
    /// A uid that is not a UUID in its usual form.
    uid: Box<str>,
    deletion_timestamp: Option<(i64, i32)>,
    /// The node that the pod is nominated to; empty if it is to none.
    nominated_node: Box<str>,
}

/// The phases of a pod (core/v1 PodPhase).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The phase is missing.
    Unset,
    /// Accepted, not yet running.
    Pending,
    /// Running.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// The pod's node does not answer.
    Unknown,
}

impl Phase {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Unset, ""),
        (Self::Pending, "Pending"),
        (Self::Running, "Running"),
        (Self::Succeeded, "Succeeded"),
        (Self::Failed, "Failed"),
        (Self::Unknown, "Unknown"),
    ];

    /// The phase of this name in Kubernetes.
    pub fn parse(text: &str) -> Option<Self> {
        let named = Self::ALL.iter().find(|(_, name)| *name == text);
        named.map(|(phase, _)| *phase)
    }

    /// Kubernetes' name of the phase.
    pub(super) fn as_str(self) -> &'static str {
        let name = Self::ALL.iter().find(|(phase, _)| *phase == self);
        name.expect("every phase has a name").1
    }
}

impl Life {
    /// Reads the life of a pod, without the template. A pod of an unknown phase is not valid.
    fn of(pod: &v1::Pod) -> Self {
        let (no_metadata, no_status) = (v1::ObjectMeta::default(), v1::PodStatus::default());
        let metadata = pod.metadata.as_ref().unwrap_or(&no_metadata);
        let status = pod.status.as_ref().unwrap_or(&no_status);
        let text = &*metadata.uid;
        // Most pods have a UUID in its usual form.
        let may_be_usual =
            text.len() == Hyphenated::LENGTH && !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let uid = Some(text).filter(|_| may_be_usual);
        let uid = uid.and_then(|text| Uuid::try_parse(text).ok());
        // A missing uid is different from the one of all zeros.
        let uid = uid.filter(|uid| !uid.is_nil());
        let deletion = metadata.deletion_timestamp.as_ref();
        let rare = Rare {
            uid: match uid {
                Some(_) => Box::default(),
                None => text.into(),
            },
            deletion_timestamp: deletion.map(|time| (time.seconds, time.nanos)),
            nominated_node: (*status.nominated_node_name).into(),
        };
        Self {
            uid: uid.unwrap_or_default(),
            phase: Phase::parse(&status.phase).unwrap_or(Phase::Unset),
            template: TemplateId::ABSENT,
            rare: (rare != Rare::default()).then(|| Arc::new(rare)),
        }
    }

    /// The same life with a template.
    pub fn with_template(&self, template: TemplateId) -> Self {
        Self {
            template,
            ..self.clone()
        }
    }

    /// Returns whether the pod counts on its node: neither terminating nor finished.
    pub fn counts(&self) -> bool {
        self.deletion().is_none() && self.takes_room()
    }

    /// Returns whether the pod would count if it were not being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion().is_some() && self.takes_room()
    }

    /// Returns whether the pod takes room on its node: until it has finished, even while it
    /// terminates.
    pub fn takes_room(&self) -> bool {
        !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Returns the pod's deletion time: seconds and nanoseconds.
    pub(super) fn deletion(&self) -> Option<(i64, i32)> {
        self.rare.as_ref()?.deletion_timestamp
    }

    /// The uid; empty when unknown.
    pub fn uid(&self) -> String {
        match &self.rare {
            Some(rare) if !rare.uid.is_empty() => rare.uid.to_string(),
            _ if self.uid.is_nil() => String::new(),
            _ => self.uid.to_string(),
        }
    }

    /// The node that the pod is nominated to; empty if it is to none.
    pub fn nominated_node(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.nominated_node)
    }

    /// Returns the length of the uid.
    pub fn uid_length(&self) -> usize {
        match &self.rare {
            Some(rare) if !rare.uid.is_empty() => rare.uid.len(),
            _ if self.uid.is_nil() => 0,
            _ => Hyphenated::LENGTH,
        }
    }

    /// The pod for the wire, with these requirements.
    pub fn to_wire(
        &self,
        metadata: v1::ObjectMeta,
        node_name: &str,
        requirements: Option<&Requirements>,
    ) -> v1::Pod {
        let mut pod = v1::Pod {
            metadata: Some(v1::ObjectMeta {
                uid: self.uid(),
                deletion_timestamp: self
                    .deletion()
                    .map(|(seconds, nanos)| pbjson_types::Timestamp { seconds, nanos }),
                ..metadata
            }),
            spec: Some(v1::PodSpec {
                node_name: node_name.to_owned(),
                ..Default::default()
            }),
            status: Some(v1::PodStatus {
                phase: self.phase.as_str().to_owned(),
                nominated_node_name: self.nominated_node().to_owned(),
                ..Default::default()
            }),
        };
        if let Some(requirements) = requirements {
            requirements.fill(&mut pod);
        }
        pod
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Affinity to nodes of this name.
    fn affinity(node: &str) -> v1::Affinity {
        let required = v1::NodeSelector {
            node_selector_terms: vec![v1::NodeSelectorTerm {
                match_fields: vec![v1::NodeSelectorRequirement {
                    key: "metadata.name".into(),
                    operator: "In".into(),
                    values: vec![node.into()],
                }],
                ..v1::NodeSelectorTerm::default()
            }],
        };
        v1::Affinity {
            node_affinity: Some(v1::NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(required),
                ..v1::NodeAffinity::default()
            }),
            ..v1::Affinity::default()
        }
    }

    /// A volume of the claim that a stateful set makes for a pod.
    fn volume(pod: &str) -> v1::Volume {
        let claim = v1::ClaimSource {
            claim_name: format!("data-{pod}"),
        };
        v1::Volume {
            volume_source: Some(v1::VolumeSource {
                persistent_volume_claim: Some(claim),
                ..v1::VolumeSource::default()
            }),
            ..v1::Volume::default()
        }
    }

    fn container(cpu: &str) -> v1::Container {
        let quantity = v1::Quantity { string: cpu.into() };
        v1::Container {
            resources: Some(v1::ResourceRequirements {
                requests: BTreeMap::from([("cpu".to_owned(), quantity)]),
            }),
            ..v1::Container::default()
        }
    }

    /// A pod, often like others, seldom with a fault.
    fn pod(random: &mut fastrand::Rng) -> v1::Pod {
        let mut one_of = |of: &[&str]| (*random.choice(of).expect("some")).to_owned();
        let name = one_of(&["web-1", "web-2", "db-1", "Upper"]);
        let node = one_of(&["", "n1", "n2"]);
        let labels = BTreeMap::from([("app".to_owned(), one_of(&["web", "db", "a b"]))]);
        let uid = one_of(&["", "own", "1f0c6a1e-8a3b-4c5d-9e7f-0123456789ab"]);
        let phase = one_of(&["", "Running", "Pending", "Odd"]);
        let cpu = one_of(&["100m", "2", "lots"]);
        let (pinned_to, claims_of) = (one_of(&["n1", "n2"]), one_of(&["web-1", "db-1"]));
        let selector = BTreeMap::from([("zone".to_owned(), one_of(&["a", "b"]))]);
        let mut has = |times: u32| random.u32(..times) == 0;
        v1::Pod {
            metadata: Some(v1::ObjectMeta {
                name,
                uid,
                labels: if has(2) { labels } else { BTreeMap::new() },
                resource_version: if has(2) { "7".into() } else { String::new() },
                deletion_timestamp: has(4).then_some(pbjson_types::Timestamp {
                    seconds: 1_700_000_000,
                    nanos: 5,
                }),
                ..v1::ObjectMeta::default()
            }),
            spec: Some(v1::PodSpec {
                node_name: node,
                containers: if has(2) {
                    vec![container(&cpu)]
                } else {
                    vec![]
                },
                affinity: has(3).then(|| affinity(&pinned_to)),
                volumes: if has(4) {
                    vec![volume(&claims_of)]
                } else {
                    vec![]
                },
                node_selector: if has(3) { selector } else { BTreeMap::new() },
                priority: has(4).then_some(7),
                ..v1::PodSpec::default()
            }),
            status: Some(v1::PodStatus {
                phase,
                nominated_node_name: if has(8) { "n1".into() } else { String::new() },
                ..v1::PodStatus::default()
            }),
        }
    }

    fn compiled(compiler: &mut PodCompiler<'_>, pod: v1::Pod) -> Result<CompiledPod, String> {
        let mut faults = Violations::default();
        let compiled = compiler.compile(pod, Path::root("pod"), &mut faults);
        compiled.ok_or_else(|| faults.to_string())
    }

    /// A pod fares the same whichever pods were compiled before it, is written back with all that is
    /// stored, and is then compiled to the same again.
    #[test]
    fn a_pod_fares_the_same_after_any_others_and_is_written_back() {
        let limits = Limits::default();
        let mut random = fastrand::Rng::with_seed(3);
        let mut compiler = PodCompiler::new(&limits);
        let (mut valid, mut known) = (0, 0);
        for _ in 0..4_000 {
            let pod = pod(&mut random);
            let alone = compiled(&mut PodCompiler::new(&limits), pod.clone());
            let before = compiler.known.len();
            let after_others = compiled(&mut compiler, pod.clone());
            known += usize::from(compiler.known.len() == before);
            let (alone, after_others) = match (alone, after_others) {
                (Ok(alone), Ok(after_others)) => (alone, after_others),
                (alone, after_others) => {
                    assert_eq!(alone.err(), after_others.err(), "{pod:?}");
                    continue;
                }
            };
            valid += 1;
            let written = alone.to_wire();
            assert_eq!(written, after_others.to_wire(), "{pod:?}");
            let mut wanted = pod;
            let metadata = wanted.metadata.get_or_insert_default();
            metadata.namespace = "default".into();
            metadata.resource_version.clear();
            assert_eq!(written, wanted);
            let again = compiled(&mut compiler, written.clone()).map(|pod| pod.to_wire());
            assert_eq!(again, Ok(written));
        }
        assert!(valid > 500 && known > 3_000, "{valid} valid, {known} known");
    }
}
