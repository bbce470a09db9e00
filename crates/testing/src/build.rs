//! Short words for objects and requests, so that a test reads like the example it shows.

use evenkeel::proto::v1::{
    Affinity, AssignedPod, Change, ClaimSource, ConfirmReservationsRequest, Confirmation,
    Container, DefaultConstraints, DescribeSpreadRequest, ExplainRequest, FilterRequest,
    LabelSelector, LabelSelectorRequirement, Mode, Node, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, NodeSpec, ObjectMeta, OwnerReference, PlaceRequest,
    Pod, PodAffinity, PodAffinityTerm, PodSpec, Quantity, ReleaseReservationsRequest, Reservation,
    ReservePodsRequest, ReservedPod, ResourceRequirements, ScoreRequest, Service, ServiceSpec,
    Taint, Toleration, TopologySpreadConstraint, UpdateSnapshotRequest, View, Volume,
};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::Stored;
use crate::recount::LabelMap;

/// Topology key of zones.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Topology key of single nodes.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Pairs as a map.
pub fn pairs(pairs: &[(&str, &str)]) -> LabelMap {
    pairs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

/// Metadata with a name and labels.
pub fn meta(name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: name.into(),
        labels: pairs(labels),
        ..ObjectMeta::default()
    }
}

/// A node with its own hostname label and these labels.
pub fn node(name: &str, labels: &[(&str, &str)]) -> Node {
    let mut node = plain_node(name, labels);
    let metadata = node.metadata.get_or_insert_default();
    metadata.labels.insert(HOSTNAME.into(), name.into());
    node
}

/// Nodes of these names, each in a zone of its own name.
pub fn zones(names: &[&str]) -> Vec<Change> {
    let nodes = names.iter().map(|name| node(name, &[(ZONE, name)]));
    nodes.map(Stored::change).collect()
}

/// A node with these labels and no other.
pub fn plain_node(name: &str, labels: &[(&str, &str)]) -> Node {
    Node {
        metadata: Some(meta(name, labels)),
        ..Node::default()
    }
}

/// The node with one taint more.
pub fn tainted(mut node: Node, key: &str, value: &str, effect: &str) -> Node {
    let spec = node.spec.get_or_insert_with(NodeSpec::default);
    spec.taints.push(Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
        ..Taint::default()
    });
    node
}

/// The node, cordoned.
pub fn cordoned(mut node: Node) -> Node {
    node.spec.get_or_insert_default().unschedulable = true;
    node
}

/// Quantities by name of the resource.
pub fn amounts(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    let quantity = |text: &str| Quantity {
        string: text.into(),
    };
    amounts
        .iter()
        .map(|(name, text)| ((*name).into(), quantity(text)))
        .collect()
}

/// The node, with this allocatable.
pub fn having(mut node: Node, allocatable: &[(&str, &str)]) -> Node {
    node.status.get_or_insert_default().allocatable = amounts(allocatable);
    node
}

/// The pod, with one container more, which requests this.
pub fn requesting(mut pod: Pod, requests: &[(&str, &str)]) -> Pod {
    let requests = amounts(requests);
    pod.spec.get_or_insert_default().containers.push(Container {
        resources: Some(ResourceRequirements { requests }),
        ..Container::default()
    });
    pod
}

/// A pod in the namespace `default`.
pub fn pod(name: &str, labels: &[(&str, &str)]) -> Pod {
    Pod {
        metadata: Some(meta(name, labels)),
        ..Pod::default()
    }
}

/// A service in the namespace `default` that selects pods with these labels.
pub fn service(name: &str, selector: &[(&str, &str)]) -> Service {
    Service {
        metadata: Some(meta(name, &[])),
        spec: Some(ServiceSpec {
            selector: pairs(selector),
        }),
    }
}

/// The pod, running on a node.
pub fn on(mut pod: Pod, node: &str) -> Pod {
    pod.spec.get_or_insert_with(PodSpec::default).node_name = node.into();
    pod
}

/// The pod, with this controller alone.
pub fn owned_by(mut pod: Pod, kind: &str, name: &str) -> Pod {
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    pod.metadata.get_or_insert_default().owner_references = vec![owner];
    pod
}

/// The pod, nominated to a node.
pub fn nominated(mut pod: Pod, node: &str, priority: i32) -> Pod {
    pod.spec.get_or_insert_default().priority = Some(priority);
    pod.status.get_or_insert_default().nominated_node_name = node.into();
    pod
}

/// The pod, which uses this claim.
pub fn with_claim(mut pod: Pod, claim: &str) -> Pod {
    let source = ClaimSource {
        claim_name: claim.into(),
    };
    pod.spec.get_or_insert_default().volumes.push(Volume {
        name: claim.into(),
        persistent_volume_claim: Some(source),
        ..Default::default()
    });
    pod
}

/// The pod, being deleted.
pub fn terminating(mut pod: Pod) -> Pod {
    let metadata = pod.metadata.get_or_insert_default();
    metadata.deletion_timestamp = Some(Default::default());
    pod
}

/// The pod with these constraints.
pub fn spread(mut pod: Pod, constraints: Vec<TopologySpreadConstraint>) -> Pod {
    pod.spec
        .get_or_insert_with(PodSpec::default)
        .topology_spread_constraints = constraints;
    pod
}

/// The pod, tolerating one taint more.
pub fn tolerating(mut pod: Pod, key: &str, operator: &str, value: &str, effect: &str) -> Pod {
    let spec = pod.spec.get_or_insert_with(PodSpec::default);
    spec.tolerations.push(Toleration {
        key: key.into(),
        operator: operator.into(),
        value: value.into(),
        effect: effect.into(),
        toleration_seconds: None,
    });
    pod
}

/// The pod with a node selector.
pub fn selecting(mut pod: Pod, labels: &[(&str, &str)]) -> Pod {
    pod.spec.get_or_insert_with(PodSpec::default).node_selector = pairs(labels);
    pod
}

/// The pod with a required node affinity of one expression.
pub fn requiring(pod: Pod, key: &str, operator: &str, values: &[&str]) -> Pod {
    let expressions = vec![node_requirement(key, operator, values)];
    requiring_terms(
        pod,
        vec![NodeSelectorTerm {
            match_expressions: expressions,
            match_fields: Vec::new(),
        }],
    )
}

/// The pod with these terms as its required node affinity.
pub fn requiring_terms(mut pod: Pod, terms: Vec<NodeSelectorTerm>) -> Pod {
    let required = NodeSelector {
        node_selector_terms: terms,
    };
    pod.spec.get_or_insert_with(PodSpec::default).affinity = Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    });
    pod
}

/// The pod with required affinity, and anti-affinity, to other pods.
pub fn with_affinity(mut pod: Pod, near: &[PodAffinityTerm], apart: &[PodAffinityTerm]) -> Pod {
    let rules = |terms: &[PodAffinityTerm]| {
        let rules = PodAffinity {
            required_during_scheduling_ignored_during_execution: terms.to_vec(),
            ..PodAffinity::default()
        };
        (!terms.is_empty()).then_some(rules)
    };
    let affinity = &mut pod.spec.get_or_insert_default().affinity;
    let affinity = affinity.get_or_insert_default();
    (affinity.pod_affinity, affinity.pod_anti_affinity) = (rules(near), rules(apart));
    pod
}

/// A term about pods with these labels.
pub fn pod_term(key: &str, labels: &[(&str, &str)]) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.into(),
        label_selector: Some(labelled(labels)),
        ..PodAffinityTerm::default()
    }
}

/// One requirement on a node.
pub fn node_requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|v| (*v).into()).collect(),
    }
}

/// One requirement on labels.
pub fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|v| (*v).into()).collect(),
    }
}

/// A selector of pairs.
pub fn labelled(labels: &[(&str, &str)]) -> LabelSelector {
    LabelSelector {
        match_labels: pairs(labels),
        match_expressions: Vec::new(),
    }
}

/// A hard constraint on the pods with `labels`.
pub fn hard(max_skew: i32, key: &str, labels: &[(&str, &str)]) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: key.into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        label_selector: Some(labelled(labels)),
        ..TopologySpreadConstraint::default()
    }
}

/// A soft constraint on the pods with `labels`.
pub fn soft(max_skew: i32, key: &str, labels: &[(&str, &str)]) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        when_unsatisfiable: "ScheduleAnyway".into(),
        ..hard(max_skew, key, labels)
    }
}

/// The changes as a batch for the default snapshot.
pub fn update_of(changes: Vec<Change>) -> UpdateSnapshotRequest {
    UpdateSnapshotRequest {
        changes,
        ..UpdateSnapshotRequest::default()
    }
}

/// The changes as a batch for a snapshot.
pub fn batch_of(snapshot: &str, changes: Vec<Change>) -> UpdateSnapshotRequest {
    UpdateSnapshotRequest {
        snapshot: snapshot.into(),
        ..update_of(changes)
    }
}

/// The changes as the whole state of a snapshot.
pub fn replace_of(snapshot: &str, changes: Vec<Change>) -> UpdateSnapshotRequest {
    UpdateSnapshotRequest {
        mode: Mode::Replace.into(),
        ..batch_of(snapshot, changes)
    }
}

/// Default constraints: these, without their selectors.
pub fn defaults_of(mut constraints: Vec<TopologySpreadConstraint>) -> DefaultConstraints {
    for constraint in &mut constraints {
        constraint.label_selector = None;
    }
    DefaultConstraints {
        constraints,
        system: false,
    }
}

/// The question where the pod may run.
pub fn filter_of(pod: Pod) -> FilterRequest {
    FilterRequest {
        pod: Some(pod),
        ..FilterRequest::default()
    }
}

/// The question where the pod may run, by the state of a snapshot.
pub fn filter_in(snapshot: &str, pod: Pod) -> FilterRequest {
    FilterRequest {
        snapshot: snapshot.into(),
        ..filter_of(pod)
    }
}

/// The question where the pod should run.
pub fn score_of(pod: Pod) -> ScoreRequest {
    ScoreRequest {
        pod: Some(pod),
        ..ScoreRequest::default()
    }
}

/// The question where the pod may run, answered with all nodes and all domains.
pub fn full_filter_of(pod: Pod) -> FilterRequest {
    FilterRequest {
        view: View::Full.into(),
        max_domains: Some(0),
        ..filter_of(pod)
    }
}

/// The same question for Score.
pub fn score_as(asked: FilterRequest) -> ScoreRequest {
    ScoreRequest {
        snapshot: asked.snapshot,
        pod: asked.pod,
        candidates: asked.candidates,
        node_checks: asked.node_checks,
        view: asked.view,
        min_revision: asked.min_revision,
        min_resource_versions: asked.min_resource_versions,
        overlay: asked.overlay,
        dialect: asked.dialect,
        max_domains: asked.max_domains,
        epoch: asked.epoch,
        ..ScoreRequest::default()
    }
}

/// The same question for Explain.
pub fn explain_as(asked: FilterRequest) -> ExplainRequest {
    ExplainRequest {
        snapshot: asked.snapshot,
        pod: asked.pod,
        min_revision: asked.min_revision,
        min_resource_versions: asked.min_resource_versions,
        overlay: asked.overlay,
        dialect: asked.dialect,
        epoch: asked.epoch,
        ..ExplainRequest::default()
    }
}

/// The same question for Place, of one pod.
pub fn place_as(asked: FilterRequest) -> PlaceRequest {
    PlaceRequest {
        snapshot: asked.snapshot,
        pod: asked.pod,
        replicas: 1,
        min_revision: asked.min_revision,
        min_resource_versions: asked.min_resource_versions,
        overlay: asked.overlay,
        dialect: asked.dialect,
        epoch: asked.epoch,
        ..PlaceRequest::default()
    }
}

/// The same question of DescribeSpread, which asks about no pod.
pub fn describe_as(asked: FilterRequest) -> DescribeSpreadRequest {
    DescribeSpreadRequest {
        snapshot: asked.snapshot,
        min_revision: asked.min_revision,
        epoch: asked.epoch,
        ..DescribeSpreadRequest::default()
    }
}

/// The question why the pod may run where it may.
pub fn explain_of(pod: Pod) -> ExplainRequest {
    ExplainRequest {
        pod: Some(pod),
        ..ExplainRequest::default()
    }
}

/// The question where so many pods go together.
pub fn place_of(pod: Pod, replicas: i32) -> PlaceRequest {
    PlaceRequest {
        pod: Some(pod),
        replicas,
        ..PlaceRequest::default()
    }
}

/// The request to place so many pods, and to hold the places for so long.
pub fn hold_of(pod: Pod, replicas: i32, ttl: Duration) -> PlaceRequest {
    PlaceRequest {
        reserve: Some(Reservation {
            owner: "deployer".into(),
            ttl: Some(ttl.into()),
        }),
        ..place_of(pod, replicas)
    }
}

/// The request to count pods on chosen nodes for so long.
pub fn assign_of(pods: Vec<(Pod, &str)>, ttl: Duration) -> ReservePodsRequest {
    let assigned = |(pod, node): (Pod, &str)| AssignedPod {
        pod: Some(pod),
        node: node.into(),
    };
    ReservePodsRequest {
        snapshot: String::new(),
        pods: pods.into_iter().map(assigned).collect(),
        reserve: hold_of(Pod::default(), 1, ttl).reserve,
    }
}

/// The request that says which pod a reservation became.
pub fn confirm_of(id: &str, name: &str, uid: &str) -> ConfirmReservationsRequest {
    let (name, uid) = (name.into(), uid.into());
    ConfirmReservationsRequest {
        snapshot: String::new(),
        confirmations: vec![Confirmation {
            id: id.into(),
            pod: Some(ReservedPod { name, uid }),
        }],
    }
}

/// The request to release reservations.
pub fn release_of(ids: Vec<String>) -> ReleaseReservationsRequest {
    ReleaseReservationsRequest {
        snapshot: String::new(),
        ids,
    }
}
