//! Lists as `kubectl get -o json` writes them, read as grpcurl and `ParseDict` read them, by the
//! descriptors of the protocol. A snapshot that is fed so answers like one that `--load` has read.

use evenkeel::proto::v1::UpdateSnapshotRequest;
use evenkeel::proto::v1::{FILE_DESCRIPTOR_SET, FilterRequest, Pod, ScoreRequest, View};
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::{Value, json};

use crate::serving::process::Server;
use support::build::{filter_in, score_of};

const KINDS: [&str; 6] = [
    "Node",
    "Pod",
    "Service",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
];

/// A message of the protocol, from the JSON that every client reads.
fn read<T: Message + Default>(name: &str, json: &Value, options: &DeserializeOptions) -> T {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let message = pool.get_message_by_name(&format!("evenkeel.v1.{name}"));
    let message = message.expect("a message of the protocol");
    let read = DynamicMessage::deserialize_with_options(message, json, options);
    let read = read.unwrap_or_else(|error| panic!("{name}: {error}: {json}"));
    T::decode(read.encode_to_vec().as_slice()).expect("the same message")
}

/// Ignores unknown fields, like `-allow-unknown-fields` of grpcurl and `ignore_unknown_fields` of
/// Python.
fn lenient() -> DeserializeOptions {
    DeserializeOptions::new().deny_unknown_fields(false)
}

/// Returns the changes that `jq` makes of a list: each object under the name of its kind.
fn changes(list: &Value) -> Value {
    let items = list["items"].as_array().expect("a list");
    let known = items.iter().filter_map(|item| {
        let kind = item["kind"].as_str().filter(|kind| KINDS.contains(kind))?;
        let name = kind[..1].to_lowercase() + &kind[1..];
        Some(json!({ name: item }))
    });
    known.collect()
}

#[tokio::test]
async fn what_kubectl_writes_is_answered_as_with_load() {
    is_answered_as_with_load("examples/requests/kubectl.json").await;
}

#[tokio::test]
#[ignore = "needs ../shared/data/kurl-cluster/cluster.json: what kubectl get -o json wrote of a real cluster"]
async fn a_real_cluster_is_answered_as_with_load() {
    is_answered_as_with_load("../shared/data/kurl-cluster/cluster.json").await;
}

/// A list in a file, below the project, is answered alike by `--load` and as a client sends it.
async fn is_answered_as_with_load(file: &str) {
    let server = Server::start_loaded(file, &[]);
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let request = json!({"snapshot": "fed", "mode": "MODE_REPLACE", "changes": changes(&list)});
    let request: UpdateSnapshotRequest = read("UpdateSnapshotRequest", &request, &lenient());
    let fed = request.changes.len();
    assert_eq!(server.send(request).await.changed_count, fed as i64);

    let pods = list["items"].as_array().expect("a list").iter();
    let mut asked = 0;
    for json in pods.filter(|item| item["kind"] == "Pod") {
        let mut pod: Pod = read("Pod", json, &lenient());
        pod.spec.get_or_insert_default().node_name.clear();
        let loaded = ask(&server, "default", &pod).await;
        assert_eq!(
            ask(&server, "fed", &pod).await,
            loaded,
            "{}",
            json["metadata"]
        );
        asked += 1;
    }
    assert!(asked > 3, "{file}");
}

/// The answers about a pod, without the fields that name the state.
async fn ask(server: &Server, snapshot: &str, pod: &Pod) -> [Value; 2] {
    let filter = FilterRequest {
        view: View::Full.into(),
        ..filter_in(snapshot, pod.clone())
    };
    let score = ScoreRequest {
        snapshot: snapshot.into(),
        ..score_of(pod.clone())
    };
    let filtered = serde_json::to_value(server.filter(filter).await);
    let answers = [filtered, serde_json::to_value(server.score(score).await)];
    answers.map(|answer| {
        let mut answer = answer.expect("JSON");
        assert_eq!(answer["defaults"], "DEFAULTS_KIND_SYSTEM");
        for field in ["epoch", "revision", "age"] {
            answer.as_object_mut().expect("a message").remove(field);
        }
        answer
    })
}

#[test]
fn the_kind_of_an_object_is_read_and_ignored() {
    let strict = DeserializeOptions::new();
    for kind in KINDS {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
        let with: Pod = read(kind, &object, &strict);
        let without: Pod = read(kind, &json!({"metadata": {"name": "a"}}), &strict);
        assert_eq!(with, without, "{kind}");
    }
}

/// A quantity is its text also where a client prints a message, and its bytes are those of
/// Kubernetes.
#[test]
fn a_quantity_is_its_text_and_has_kubernetes_bytes() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let node = pool
        .get_message_by_name("evenkeel.v1.NodeStatus")
        .expect("a message");
    // A map entry of field 2: the key "cpu", and Quantity { string string = 1 } with "4".
    let bytes = [
        0x12, 0x0a, 0x0a, 3, b'c', b'p', b'u', 0x12, 3, 0x0a, 1, b'4',
    ];
    let read = DynamicMessage::decode(node, bytes.as_slice()).expect("a message");
    let json = read.serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new());
    assert_eq!(json.expect("JSON"), json!({"allocatable": {"cpu": "4"}}));
}
