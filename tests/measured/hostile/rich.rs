//! What makes objects and questions of the generated pairs dear: objects that questions meet, and
//! entries that no other entry spares a comparison.

use evenkeel::proto::v1;
use prost::Message;
use prost_types::FieldDescriptorProto;
use support::build::{
    HOSTNAME, ZONE, amounts, filter_of, hard, having, labelled, meta, node, node_requirement, on,
    pod, pod_term, requesting, requirement, spread, tainted, with_affinity,
};

use crate::hostile::examples;

/// The nodes that objects name, all of which there are in each world.
const NODES: usize = 20;

/// The class that claims and volumes are of.
const CLASS: &str = "entry-0";

/// The name of all objects, and of all that a list can name.
fn name(number: usize) -> String {
    format!("entry-{number}")
}

fn bytes(object: &impl Message) -> Vec<u8> {
    object.encode_to_vec()
}

/// A selector that no index answers.
fn all_but(number: usize) -> v1::LabelSelector {
    v1::LabelSelector {
        match_expressions: vec![requirement("number", "NotIn", &[&number.to_string()])],
        ..Default::default()
    }
}

fn only_on(number: usize) -> v1::NodeSelector {
    let expressions = vec![node_requirement(HOSTNAME, "In", &[&name(number % NODES)])];
    v1::NodeSelector {
        node_selector_terms: vec![v1::NodeSelectorTerm {
            match_expressions: expressions,
            ..Default::default()
        }],
    }
}

fn claim_spec() -> v1::PersistentVolumeClaimSpec {
    v1::PersistentVolumeClaimSpec {
        access_modes: vec!["ReadWriteOnce".into()],
        resources: Some(v1::ResourceRequirements {
            requests: amounts(&[("storage", "10Gi")]),
        }),
        storage_class_name: Some(CLASS.into()),
        ..Default::default()
    }
}

/// The fields of an object of a kind, such as `.evenkeel.v1.Pod`. A kind without fields here has
/// only a name.
pub(crate) fn object(kind: &str, number: usize) -> Vec<u8> {
    let (own, text) = (name(number), number.to_string());
    let labels = [("app", "web"), ("number", &*text)];
    let metadata = Some(meta(&own, &labels));
    match kind.trim_start_matches(".evenkeel.v1.") {
        "Node" => {
            let (zone, group) = (
                format!("zone-{}", number % 10),
                format!("{}", number % 1_000),
            );
            let labels = [(ZONE, &*zone), ("zone", &*zone), ("group", &*group)];
            let node = tainted(node(&own, &labels), "key", &text, "PreferNoSchedule");
            bytes(&having(
                node,
                &[("cpu", "8"), ("memory", "16Gi"), ("pods", "110")],
            ))
        }
        "Pod" => {
            let apart = pod_term(HOSTNAME, &[("number", &text)]);
            let constraint = hard(1, ZONE, &[("app", "web")]);
            let pod = spread(pod(&own, &labels), vec![constraint]);
            let pod = with_affinity(requesting(pod, &[("cpu", "1m")]), &[], &[apart]);
            // More of them are on the first nodes, so there is something to move.
            let mut pod = on(pod, &name((number % NODES).min(number / NODES % NODES)));
            let metadata = pod.metadata.get_or_insert_default();
            if !number.is_multiple_of(4) {
                metadata.namespace = name(number);
            }
            metadata.owner_references.push(v1::OwnerReference {
                kind: "ReplicaSet".into(),
                name: "entry-0".into(),
                uid: "uid".into(),
                controller: Some(true),
                ..Default::default()
            });
            let spec = pod.spec.get_or_insert_default();
            spec.volumes.extend(volume("data", number));
            bytes(&pod)
        }
        "PersistentVolume" => bytes(&v1::PersistentVolume {
            metadata,
            spec: Some(v1::PersistentVolumeSpec {
                capacity: amounts(&[("storage", "10Gi")]),
                access_modes: vec!["ReadWriteOnce".into()],
                storage_class_name: CLASS.into(),
                node_affinity: Some(v1::VolumeNodeAffinity {
                    required: Some(only_on(number)),
                }),
                ..Default::default()
            }),
            status: Some(v1::PersistentVolumeStatus {
                phase: "Available".into(),
            }),
        }),
        "PersistentVolumeClaim" => bytes(&v1::PersistentVolumeClaim {
            metadata,
            spec: Some(claim_spec()),
            ..Default::default()
        }),
        "StorageClass" => bytes(&v1::StorageClass {
            metadata,
            provisioner: "csi.example.com".into(),
            volume_binding_mode: Some("WaitForFirstConsumer".into()),
            ..Default::default()
        }),
        "PodDisruptionBudget" => bytes(&v1::PodDisruptionBudget {
            metadata,
            spec: Some(v1::PodDisruptionBudgetSpec {
                selector: Some(all_but(number)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        // Those that select pods have their selectors in the same fields.
        "ReplicaSet" | "StatefulSet" => bytes(&v1::ReplicaSet {
            metadata,
            spec: Some(v1::ReplicaSetSpec {
                selector: Some(labelled(&[("app", "web")])),
            }),
        }),
        "Service" | "ReplicationController" => {
            let mut service = support::build::service(&own, &[("app", "web")]);
            service.metadata = metadata;
            bytes(&service)
        }
        // All others have at least the metadata where `Namespace` has it.
        _ => bytes(&v1::Namespace { metadata }),
    }
}

/// A volume of each kind of claim.
fn volume(of: &str, number: usize) -> [v1::Volume; 1] {
    let is_own = number.is_multiple_of(2);
    let ephemeral = v1::EphemeralSource {
        volume_claim_template: Some(v1::ClaimTemplate {
            spec: Some(claim_spec()),
        }),
    };
    [v1::Volume {
        name: of.into(),
        volume_source: Some(v1::VolumeSource {
            persistent_volume_claim: (!is_own).then(|| v1::ClaimSource {
                claim_name: name(number),
            }),
            ephemeral: is_own.then_some(ephemeral),
            ..Default::default()
        }),
        ..Default::default()
    }]
}

/// The pod of all questions: it meets objects of each kind.
fn asker() -> v1::Pod {
    let apart = v1::PodAffinityTerm {
        namespace_selector: Some(v1::LabelSelector::default()),
        ..pod_term(HOSTNAME, &[("number", "asker")])
    };
    let constraint = hard(1_000_000, ZONE, &[("app", "web")]);
    let pod = spread(pod("web", &[("app", "web")]), vec![constraint]);
    let mut pod = with_affinity(requesting(pod, &[("cpu", "1m")]), &[], &[apart]);
    let spec = pod.spec.get_or_insert_default();
    spec.volumes.extend(volume("claimed", 1));
    spec.volumes.extend(volume("own", 2));
    pod
}

fn term(number: usize) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        topology_key: HOSTNAME.into(),
        label_selector: Some(all_but(number)),
        namespace_selector: Some(all_but(number)),
        ..Default::default()
    }
}

/// A constraint over a key of nodes; after the first ones, which use them up, over a key that no node
/// has.
fn constraint(number: usize) -> v1::TopologySpreadConstraint {
    let known = [HOSTNAME, "group", "zone"];
    let is_known = number < 2 * known.len();
    let key = known[number % known.len()].to_owned();
    let when_unsatisfiable = match number < known.len() {
        true => "DoNotSchedule",
        false => "ScheduleAnyway",
    };
    v1::TopologySpreadConstraint {
        topology_key: if is_known { key } else { name(number) },
        label_selector: Some(all_but(number)),
        when_unsatisfiable: when_unsatisfiable.into(),
        ..Default::default()
    }
}

/// The fields of an entry of a list of messages, beside its name and those of [`examples::of`].
pub(crate) fn entry(list: &FieldDescriptorProto, number: usize) -> Vec<u8> {
    match list.type_name().trim_start_matches(".evenkeel.v1.") {
        "NodeSelectorRequirement" if list.name() == "match_fields" => {
            bytes(&v1::NodeSelectorRequirement {
                key: "metadata.name".into(),
                operator: "NotIn".into(),
                ..Default::default()
            })
        }
        "Volume" => {
            let [volume] = volume(&name(number), number);
            bytes(&volume)
        }
        "PodAffinityTerm" => bytes(&term(number)),
        "WeightedPodAffinityTerm" => bytes(&v1::WeightedPodAffinityTerm {
            weight: 1,
            pod_affinity_term: Some(term(number)),
        }),
        "TopologySpreadConstraint" => bytes(&constraint(number)),
        "NodeSelectorTerm" => bytes(&v1::NodeSelectorTerm {
            match_expressions: vec![node_requirement("key", "NotIn", &[&name(number)])],
            ..Default::default()
        }),
        "WorkloadReplicas" => bytes(&v1::WorkloadReplicas {
            pod: Some(asker()),
            replicas: 100,
            ..Default::default()
        }),
        "NeededPods" => bytes(&v1::NeededPods {
            pod: Some(asker()),
            replicas: 1,
        }),
        "NodeTemplate" => bytes(&v1::NodeTemplate {
            node: name(number % NODES),
            ..Default::default()
        }),
        "TopologyValues" => bytes(&v1::TopologyValues {
            topology_key: name(number),
            values: vec!["value".into()],
        }),
        "Question" => bytes(&v1::Question {
            ask: Some(v1::question::Ask::Filter(filter_of(asker()))),
            ..Default::default()
        }),
        other => passing(other),
    }
}

/// What makes a requirement one that most labels meet, so that the next one is looked at.
fn passing(message: &str) -> Vec<u8> {
    match message {
        "LabelSelectorRequirement" | "NodeSelectorRequirement" => {
            bytes(&v1::LabelSelectorRequirement {
                operator: "NotIn".into(),
                ..Default::default()
            })
        }
        _ => Vec::new(),
    }
}

fn removals_of(kind: &str) -> Vec<u8> {
    bytes(&v1::RankRemovalsRequest {
        workload: Some(v1::WorkloadName {
            kind: kind.into(),
            name: name(0),
            ..Default::default()
        }),
        count: 10,
        ..Default::default()
    })
}

/// A message around a list of a question, as [`examples::of`] with more to do.
pub(crate) fn around(message: &str, within: Option<&FieldDescriptorProto>) -> Vec<u8> {
    let field = within.map_or("", FieldDescriptorProto::name);
    let more = match (message.trim_start_matches(".evenkeel.v1."), field) {
        ("PlaceRequest", "workloads" | "holders" | "sticky") => Vec::new(),
        // All questions about a pod have it in the same field.
        ("FilterRequest" | "ScoreRequest" | "ExplainRequest" | "PlaceRequest", _) => {
            bytes(&filter_of(asker()))
        }
        ("RebalanceRequest", _) => bytes(&v1::RebalanceRequest {
            max_moves: 10,
            ..Default::default()
        }),
        ("WorkloadName", _) => bytes(&v1::WorkloadName {
            kind: "ReplicaSet".into(),
            name: name(0),
            ..Default::default()
        }),
        ("NodeDrain", "rules") => bytes(&v1::NodeDrain {
            nodes: (0..NODES / 2).map(name).collect(),
            ..Default::default()
        }),
        ("NodeSpare", _) => bytes(&v1::NodeSpare {
            max: 10,
            ..Default::default()
        }),
        ("NodeTemplate", "domains") => bytes(&v1::NodeTemplate {
            node: name(0),
            ..Default::default()
        }),
        ("TopologyValues", _) => bytes(&v1::TopologyValues {
            topology_key: "zone".into(),
            ..Default::default()
        }),
        ("RankRemovalsRequest", "revisions") => removals_of("Deployment"),
        ("RankRemovalsRequest", _) => removals_of("ReplicaSet"),
        ("NodeNeed", "templates") => bytes(&v1::NodeNeed {
            pending: true,
            ..Default::default()
        }),
        ("NodeNeed", _) => bytes(&v1::NodeNeed {
            templates: vec![v1::NodeTemplate {
                node: name(0),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ("NeededPods", _) => bytes(&v1::NeededPods {
            pod: Some(asker()),
            replicas: 10,
        }),
        ("Volume", _) => bytes(&v1::Volume {
            name: "around".into(),
            ..Default::default()
        }),
        ("PersistentVolumeClaimSpec", "access_modes") => bytes(&v1::PersistentVolumeClaimSpec {
            access_modes: Vec::new(),
            ..claim_spec()
        }),
        ("PersistentVolumeClaimSpec", _) => bytes(&claim_spec()),
        ("PodAffinityTerm", _) => bytes(&v1::PodAffinityTerm {
            topology_key: HOSTNAME.into(),
            label_selector: Some(v1::LabelSelector::default()),
            namespace_selector: Some(v1::LabelSelector::default()),
            ..Default::default()
        }),
        ("WeightedPodAffinityTerm", _) => bytes(&v1::WeightedPodAffinityTerm {
            weight: 1,
            ..Default::default()
        }),
        // Objects of an overlay that are no examples are told apart by their names.
        ("Namespace" | "PersistentVolume" | "PersistentVolumeClaim" | "StorageClass", _)
        | ("PodDisruptionBudget", _) => bytes(&v1::Namespace {
            metadata: Some(meta("around", &[])),
        }),
        (other, _) => passing(other),
    };
    [examples::of(message, within), more].concat()
}
