//! Objects as Kubernetes' own encoder wrote them, compared with their JSON: both are the same
//! message, and writing it again keeps every known field.

use std::collections::BTreeMap;
use std::fmt::Debug;
use support::vectors;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel::proto::v1::{
    FILE_DESCRIPTOR_SET, Node, Pod, ReplicaSet, ReplicationController, Service, StatefulSet,
};
use pbjson_types::Timestamp;
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const OBJECTS: usize = 41;

#[derive(Deserialize)]
struct Vector {
    json: Value,
    kind: String,
    protobuf: String,
}

#[test]
fn bytes_and_json_are_the_same_object() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for line in vectors::lines("kubernetes-objects.jsonl.gz") {
        let vector: Vector = serde_json::from_str(&line).expect("a vector");
        match vector.kind.as_str() {
            "Node" => check::<Node>(&vector),
            "Pod" => check::<Pod>(&vector),
            "Service" => check::<Service>(&vector),
            "ReplicaSet" => check::<ReplicaSet>(&vector),
            "StatefulSet" => check::<StatefulSet>(&vector),
            "ReplicationController" => check::<ReplicationController>(&vector),
            other => panic!("the vectors have no {other}"),
        }
        *kinds.entry(vector.kind).or_default() += 1;
    }
    assert_eq!(kinds.values().sum::<usize>(), OBJECTS, "{kinds:?}");
}

fn check<T>(vector: &Vector)
where
    T: Message + Default + Debug + PartialEq + Serialize + DeserializeOwned,
{
    let bytes = STANDARD.decode(&vector.protobuf).expect("base64");
    let name = &vector.json["metadata"]["name"];
    let from_bytes = T::decode(bytes.as_slice()).expect("Kubernetes' bytes");
    let from_json: T = serde_json::from_value(vector.json.clone()).expect("Kubernetes' JSON");
    assert_eq!(from_bytes, from_json, "{name}");
    let known = serde_json::to_value(&from_bytes).expect("JSON");
    let by_descriptor: T = as_clients_read(&vector.kind, &vector.json);
    let by_descriptor = serde_json::to_value(&by_descriptor).expect("JSON");
    assert_eq!(by_descriptor, known, "{name}: read by the descriptors");

    let again = T::decode(from_bytes.encode_to_vec().as_slice()).expect("our bytes");
    assert_eq!(again, from_bytes, "{name}: bytes written again");
    let again: T = serde_json::from_value(known.clone()).expect("our JSON");
    assert_eq!(again, from_bytes, "{name}: JSON written again");
    kept(&known, &vector.json, &name.to_string());
}

/// An object from its JSON, read as a client does that has only the descriptors.
fn as_clients_read<T: Message + Default>(kind: &str, json: &Value) -> T {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let message = pool.get_message_by_name(&format!("evenkeel.v1.{kind}"));
    let message = message.expect("a message of the protocol");
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let read = DynamicMessage::deserialize_with_options(message, json, &options);
    let read = read.unwrap_or_else(|error| panic!("{error}: {json}"));
    T::decode(read.encode_to_vec().as_slice()).expect("the same message")
}

/// Checks that Kubernetes' JSON has every value that we wrote.
fn kept(ours: &Value, theirs: &Value, path: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                let path = format!("{path}.{key}");
                let theirs = theirs.get(key).unwrap_or_else(|| panic!("{path} is new"));
                kept(value, theirs, &path);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{path}");
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                kept(ours, theirs, &format!("{path}[{index}]"));
            }
        }
        // Proto-JSON writes int64 as text.
        (Value::String(ours), Value::Number(theirs)) => {
            assert_eq!(*ours, theirs.to_string(), "{path}");
        }
        // RFC 3339 writes one instant in several ways.
        (ours, theirs) if ours != theirs => match (instant(ours), instant(theirs)) {
            (Some(ours), Some(theirs)) => assert_eq!(ours, theirs, "{path}"),
            _ => panic!("{path}: {ours} was {theirs}"),
        },
        _ => {}
    }
}

fn instant(value: &Value) -> Option<Timestamp> {
    serde_json::from_value(value.clone()).ok()
}
