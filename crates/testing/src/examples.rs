//! A valid example of each message that is not valid when it is empty.

use evenkeel::proto::v1::{
    Change, Confirmation, Container, ContainerPort, Dialect, FilterRequest, Holder, LabelSelector,
    LabelSelectorRequirement, NodeBonus, NodeCapacity, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectMeta, ObjectReference, OwnerReference, PlaceRequest, Pod, PreferredSchedulingTerm,
    Question, Reservation, ReservedPod, Taint, Toleration, TopologySpreadConstraint,
    WorkloadReplicas, change, question,
};
use evenkeel::proto::{Duration, v1};
use prost::Message;
use prost_types::FieldDescriptorProto;

/// The bytes of an example of a message, to which a field may be added.
pub fn of(message: &str, field: Option<&FieldDescriptorProto>) -> Vec<u8> {
    let name = message.trim_start_matches(".evenkeel.v1.");
    // If the field is in a oneof, the example has no other member, because the field would replace
    // it.
    let is_choice =
        field.is_some_and(|field| field.oneof_index.is_some() && !field.proto3_optional());
    match (name, field.map_or("", FieldDescriptorProto::name)) {
        ("Question", _) => Question {
            id: 1,
            ask: (!is_choice).then(|| question::Ask::Filter(filter())),
            ..Question::default()
        }
        .encode_to_vec(),
        ("Change" | "DecideRequest" | "StreamSnapshotRequest", _) if is_choice => Vec::new(),
        ("PlaceRequest", "holders" | "sticky") => PlaceRequest {
            dialect: Dialect::Fleet.into(),
            ..place()
        }
        .encode_to_vec(),
        ("PlaceRequest", "workloads") => Vec::new(),
        ("PreferredSchedulingTerm", "preference") => PreferredSchedulingTerm {
            weight: 1,
            preference: None,
        }
        .encode_to_vec(),
        // The lists of these have no entries.
        ("NodeSelectorTerm", "match_expressions") => Vec::new(),
        ("NodeSelectorRequirement", "values") => NodeSelectorRequirement {
            values: Vec::new(),
            ..requirement()
        }
        .encode_to_vec(),
        ("LabelSelectorRequirement", "values") => one_of_labels().encode_to_vec(),
        _ => plain(name),
    }
}

fn plain(message: &str) -> Vec<u8> {
    let key = || "key".to_owned();
    match message {
        "FilterRequest" | "ScoreRequest" | "ExplainRequest" => filter().encode_to_vec(),
        "PlaceRequest" => place().encode_to_vec(),
        "Change" => delete().encode_to_vec(),
        "ObjectReference" => reference().encode_to_vec(),
        "Pod" => pod().encode_to_vec(),
        "Node" | "Service" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
            // All these have their metadata in the same field as pods.
            pod().encode_to_vec()
        }
        "ObjectMeta" => metadata().encode_to_vec(),
        "OwnerReference" => OwnerReference {
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: "uid".into(),
            ..OwnerReference::default()
        }
        .encode_to_vec(),
        "TopologySpreadConstraint" => constraint().encode_to_vec(),
        "Toleration" => Toleration {
            key: key(),
            operator: "Exists".into(),
            effect: "NoExecute".into(),
            ..Toleration::default()
        }
        .encode_to_vec(),
        "Taint" => Taint {
            key: key(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        }
        .encode_to_vec(),
        "NodeSelectorTerm" => term().encode_to_vec(),
        "NodeSelectorRequirement" => requirement().encode_to_vec(),
        "PreferredSchedulingTerm" => PreferredSchedulingTerm {
            weight: 1,
            preference: Some(term()),
        }
        .encode_to_vec(),
        "LabelSelectorRequirement" => LabelSelectorRequirement {
            values: vec!["value".into()],
            ..one_of_labels()
        }
        .encode_to_vec(),
        "Container" => Container {
            name: "main".into(),
            ..Container::default()
        }
        .encode_to_vec(),
        "ContainerPort" => ContainerPort {
            host_port: 80,
            ..ContainerPort::default()
        }
        .encode_to_vec(),
        _ => of_place(message),
    }
}

/// Examples of `Place`, and of reservations.
fn of_place(message: &str) -> Vec<u8> {
    match message {
        "NodeBonus" => NodeBonus {
            node: "node-1".into(),
            ..NodeBonus::default()
        }
        .encode_to_vec(),
        "NodeCapacity" => NodeCapacity {
            node: "node-1".into(),
            ..NodeCapacity::default()
        }
        .encode_to_vec(),
        "WorkloadReplicas" => WorkloadReplicas {
            pod: Some(pod()),
            replicas: 1,
            ..Default::default()
        }
        .encode_to_vec(),
        "Holder" => Holder {
            node: "node-1".into(),
            ..Holder::default()
        }
        .encode_to_vec(),
        "Reservation" => Reservation {
            owner: "tests".into(),
            ttl: Some(Duration {
                seconds: 1,
                nanos: 0,
            }),
        }
        .encode_to_vec(),
        "Confirmation" => Confirmation {
            id: "1".into(),
            pod: Some(reserved()),
        }
        .encode_to_vec(),
        "ReservedPod" => reserved().encode_to_vec(),
        _ => Vec::new(),
    }
}

/// A pod with a name.
fn pod() -> Pod {
    Pod {
        metadata: Some(metadata()),
        ..Pod::default()
    }
}

fn metadata() -> ObjectMeta {
    ObjectMeta {
        name: "web".into(),
        ..ObjectMeta::default()
    }
}

fn constraint() -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "zone".into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        label_selector: Some(LabelSelector::default()),
        ..TopologySpreadConstraint::default()
    }
}

fn term() -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![requirement()],
        ..NodeSelectorTerm::default()
    }
}

fn requirement() -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: "zone".into(),
        operator: "In".into(),
        values: vec!["zone-1".into()],
    }
}

fn one_of_labels() -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: "key".into(),
        operator: "In".into(),
        values: Vec::new(),
    }
}

fn filter() -> FilterRequest {
    FilterRequest {
        pod: Some(pod()),
        ..FilterRequest::default()
    }
}

fn place() -> PlaceRequest {
    PlaceRequest {
        pod: Some(pod()),
        replicas: 1,
        ..PlaceRequest::default()
    }
}

fn delete() -> Change {
    Change {
        object: Some(change::Object::Delete(reference())),
    }
}

fn reference() -> ObjectReference {
    ObjectReference {
        kind: "Pod".into(),
        name: "gone".into(),
        ..v1::ObjectReference::default()
    }
}

fn reserved() -> ReservedPod {
    ReservedPod {
        name: "web-0".into(),
        ..ReservedPod::default()
    }
}
