//! A valid example of each message that is not valid when it is empty.

use evenkeel::proto::v1;
use prost::Message;
use prost_types::FieldDescriptorProto;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The bytes of an example of a message, to which a field may be added.
pub fn of(message: &str, field: Option<&FieldDescriptorProto>) -> Vec<u8> {
    let name = message.trim_start_matches(".evenkeel.v1.");
    // If the field is in a oneof, the example has no other member, because the field would replace
    // it.
    let is_choice =
        field.is_some_and(|field| field.oneof_index.is_some() && !field.proto3_optional());
    let pod = || json!({"metadata": {"name": "web"}});
    match (name, field.map_or("", FieldDescriptorProto::name)) {
        ("Question", _) if is_choice => bytes::<v1::Question>(json!({"id": "1"})),
        ("Question", _) => bytes::<v1::Question>(json!({"id": "1", "filter": {"pod": pod()}})),
        ("Change" | "DecideRequest" | "StreamSnapshotRequest", _) if is_choice => Vec::new(),
        ("PlaceRequest", "holders" | "sticky") => bytes::<v1::PlaceRequest>(
            json!({"pod": pod(), "replicas": 1, "dialect": "DIALECT_FLEET"}),
        ),
        ("PlaceRequest", "workloads") => Vec::new(),
        ("PreferredSchedulingTerm", "preference") => {
            bytes::<v1::PreferredSchedulingTerm>(json!({"weight": 1}))
        }
        // The lists of these have no entries.
        ("NodeSelectorTerm", "match_expressions") => Vec::new(),
        ("NodeSelectorRequirement", "values") => {
            bytes::<v1::NodeSelectorRequirement>(json!({"key": "zone", "operator": "In"}))
        }
        ("LabelSelectorRequirement", "values") => {
            bytes::<v1::LabelSelectorRequirement>(json!({"key": "key", "operator": "In"}))
        }
        _ => plain(name, pod()),
    }
}

/// The bytes of a message, from JSON.
fn bytes<T: Message + DeserializeOwned>(json: Value) -> Vec<u8> {
    let message: T = serde_json::from_value(json).expect("a message");
    message.encode_to_vec()
}

fn plain(message: &str, pod: Value) -> Vec<u8> {
    let in_zone = || json!({"key": "zone", "operator": "In", "values": ["zone-1"]});
    match message {
        "FilterRequest" | "ScoreRequest" | "ExplainRequest" => {
            bytes::<v1::FilterRequest>(json!({"pod": pod}))
        }
        "PlaceRequest" => bytes::<v1::PlaceRequest>(json!({"pod": pod, "replicas": 1})),
        "Change" => bytes::<v1::Change>(json!({"delete": {"kind": "Pod", "name": "gone"}})),
        "ObjectReference" => bytes::<v1::ObjectReference>(json!({"kind": "Pod", "name": "gone"})),
        // All these have their metadata in the same field as pods.
        "Pod" | "Node" | "Service" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
            bytes::<v1::Pod>(pod)
        }
        "ObjectMeta" => bytes::<v1::ObjectMeta>(json!({"name": "web"})),
        "OwnerReference" => {
            bytes::<v1::OwnerReference>(json!({"kind": "ReplicaSet", "name": "web", "uid": "uid"}))
        }
        "TopologySpreadConstraint" => bytes::<v1::TopologySpreadConstraint>(json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {},
        })),
        "Toleration" => bytes::<v1::Toleration>(
            json!({"key": "key", "operator": "Exists", "effect": "NoExecute"}),
        ),
        "Taint" => bytes::<v1::Taint>(json!({"key": "key", "effect": "NoSchedule"})),
        "NodeSelectorTerm" => {
            bytes::<v1::NodeSelectorTerm>(json!({"matchExpressions": [in_zone()]}))
        }
        "NodeSelectorRequirement" => bytes::<v1::NodeSelectorRequirement>(in_zone()),
        "PreferredSchedulingTerm" => bytes::<v1::PreferredSchedulingTerm>(
            json!({"weight": 1, "preference": {"matchExpressions": [in_zone()]}}),
        ),
        "LabelSelectorRequirement" => bytes::<v1::LabelSelectorRequirement>(
            json!({"key": "key", "operator": "In", "values": ["value"]}),
        ),
        "Container" => bytes::<v1::Container>(json!({"name": "main"})),
        "ContainerPort" => bytes::<v1::ContainerPort>(json!({"hostPort": 80})),
        "NodeBonus" => bytes::<v1::NodeBonus>(json!({"node": "node-1"})),
        "NodeCapacity" => bytes::<v1::NodeCapacity>(json!({"node": "node-1"})),
        "WorkloadReplicas" => bytes::<v1::WorkloadReplicas>(json!({"pod": pod, "replicas": 1})),
        "Holder" => bytes::<v1::Holder>(json!({"node": "node-1"})),
        "Reservation" => bytes::<v1::Reservation>(json!({"owner": "tests", "ttl": "1s"})),
        "Confirmation" => bytes::<v1::Confirmation>(json!({"id": "1", "pod": {"name": "web-0"}})),
        "ReservedPod" => bytes::<v1::ReservedPod>(json!({"name": "web-0"})),
        _ => Vec::new(),
    }
}
