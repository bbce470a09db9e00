use futures::stream;
use serde_json::Value;
use tokio::runtime::Builder;
use tonic::codegen::http::StatusCode;

use super::*;
use crate::kubernetes::watch::Watched;
use crate::manifest::InputSource;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::snapshot::encode_object;

/// An object of each kind, in the JSON of an API server.
fn samples() -> [(ObjectKind, Value); 11] {
    use evenkeel_core::snapshot::OwnerKind::{
        PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet,
    };
    use evenkeel_core::snapshot::StorageKind::{Claim, Class, Volume};
    let meta = json!({
        "name": "it", "namespace": "shop", "uid": "u1", "resourceVersion": "17",
        "labels": { "app": "web", "tier": "\"quoted\"" },
    });
    let selector = json!({ "matchLabels": { "app": "web" } });
    let pod = json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u2", "resourceVersion": "18",
            "deletionTimestamp": "2026-01-02T03:04:05Z", "labels": { "app": "web" },
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "web", "controller": true }],
        },
        "spec": {
            "nodeName": "n1", "priority": -5,
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 2, "labelSelector": selector,
            }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }],
        },
        "status": { "phase": "Running", "nominatedNodeName": "n2" },
    });
    let node = json!({
        "metadata": { "name": "n1", "resourceVersion": "19", "labels": { "zone": "a" } },
        "spec": { "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi" } },
    });
    let by_labels = json!({ "metadata": meta, "spec": { "selector": { "app": "web" } } });
    let by_selector = json!({ "metadata": meta, "spec": { "selector": selector } });
    [
        (ObjectKind::Node, node),
        (ObjectKind::Pod, pod),
        (ObjectKind::Owner(Service), by_labels.clone()),
        (ObjectKind::Owner(ReplicationController), by_labels),
        (ObjectKind::Owner(ReplicaSet), by_selector.clone()),
        (ObjectKind::Owner(StatefulSet), by_selector),
        (
            ObjectKind::Owner(PodDisruptionBudget),
            json!({
                "metadata": meta, "spec": { "minAvailable": "50%", "selector": selector },
                "status": { "disruptionsAllowed": 0 },
            }),
        ),
        (
            ObjectKind::Namespace,
            json!({ "metadata": { "name": "shop", "labels": { "team": "a" } } }),
        ),
        (
            ObjectKind::Storage(Claim),
            json!({
                "metadata": { "name": "c", "namespace": "shop", "uid": "u3" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pv",
                    "resources": { "requests": { "storage": "1Gi" } }, "selector": selector,
                },
                "status": { "phase": "Bound" },
            }),
        ),
        (
            ObjectKind::Storage(Volume),
            json!({
                "metadata": { "name": "pv", "labels": { "topology.kubernetes.io/zone": "a__b" } },
                "spec": {
                    "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                    "claimRef": { "namespace": "shop", "name": "c", "uid": "u3" },
                    "nodeAffinity": { "required": { "nodeSelectorTerms": [{
                        "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }],
                    }] } },
                },
                "status": { "phase": "Bound" },
            }),
        ),
        (
            ObjectKind::Storage(Class),
            json!({
                "metadata": { "name": "fast" }, "provisioner": "d",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{
                    "matchLabelExpressions": [{ "key": "zone", "values": ["a"] }],
                }],
            }),
        ),
    ]
}

/// Returns the version and the object that a feed reads from JSON.
fn read(kind: ObjectKind, json: Value) -> (Option<String>, Object) {
    let watched: Watched = serde_json::from_value(json).expect("an object");
    let version = kube::Resource::meta(&watched).resource_version.clone();
    let source = InputSource::Cluster("test".to_owned());
    let object = watched.object.decode(kind, &source).expect("it is right");
    (version, object)
}

/// The encoding of an object, with one more field that decisions do not read, as in Kubernetes'
/// messages.
fn encode(object: &Object) -> Bytes {
    let mut encoded = Vec::new();
    encode_object(object, &mut encoded);
    prost::encoding::string::encode(99, &"not read".to_owned(), &mut encoded);
    encoded.into()
}

fn enclose(kind: &str, raw: Bytes) -> Bytes {
    let kind = Some(TypeMeta {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
    });
    [MAGIC, &Envelope { kind, raw }.encode_to_vec()]
        .concat()
        .into()
}

fn watch_event(what: &str, object: Bytes) -> Vec<u8> {
    let event = WatchEvent {
        what: what.to_owned(),
        object: Some(RawExtension { raw: object }),
    };
    let event = event.encode_to_vec();
    let length = u32::try_from(event.len()).expect("it is short");
    [&length.to_be_bytes()[..], &event].concat()
}

fn gone() -> Bytes {
    let status = Status {
        status: "Failure".to_owned(),
        message: "too old".to_owned(),
        reason: "Expired".to_owned(),
        code: 410,
    };
    enclose("Status", status.encode_to_vec().into())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn a_list_says_the_same_in_both_encodings() {
    for (kind, sample) in samples() {
        let expected = read(kind, sample);
        let list = List {
            metadata: Some(ListMeta {
                resource_version: "23".to_owned(),
                next: "more".to_owned(),
                remaining_item_count: Some(7),
            }),
            items: vec![encode(&expected.1); 2],
        };
        let json = answer(kind, enclose("AnyList", list.encode_to_vec().into()));
        let json: Value = serde_json::from_str(&json.expect("a list")).expect("JSON");
        assert_eq!(
            json["metadata"],
            json!({ "resourceVersion": "23", "continue": "more", "remainingItemCount": 7 })
        );
        assert_eq!(
            (&json["kind"], &json["apiVersion"]),
            (&json!("AnyList"), &json!("v1"))
        );
        for item in json["items"].as_array().expect("items") {
            assert_eq!(read(kind, item.clone()), expected);
        }
    }
}

#[test]
fn events_say_the_same_in_both_encodings_however_they_arrive() {
    for (kind, sample) in samples() {
        let expected = read(kind, sample);
        let object = enclose("Any", encode(&expected.1));
        let sent = [
            watch_event("ADDED", object.clone()),
            watch_event("BOOKMARK", object),
            watch_event("ERROR", gone()),
        ]
        .concat();
        for piece in [1, 7, sent.len()] {
            let pieces = sent.chunks(piece).map(Bytes::copy_from_slice);
            let pieces = stream::iter(pieces.map(|piece| Ok(Frame::data(piece))));
            let lines = events(kind, StreamBody::new(pieces)).try_collect::<Vec<_>>();
            let lines = block_on(lines).expect("three events");
            let lines = lines
                .iter()
                .map(|line| serde_json::from_slice::<Value>(line));
            let lines: Vec<_> = lines.map(|line| line.expect("JSON")).collect();
            assert_eq!(lines[0]["type"], "ADDED");
            assert_eq!(read(kind, lines[0]["object"].clone()), expected);
            let bookmark = &lines[1]["object"];
            assert_eq!(bookmark["kind"], "Any");
            let version = &bookmark["metadata"]["resourceVersion"];
            assert_eq!(*version, json!(expected.0));
            assert_eq!(lines[2]["object"]["code"], 410);
            assert_eq!(lines.len(), 3);
        }
    }
}

#[test]
fn what_is_no_list_is_an_error() {
    let cases: [(&str, Bytes); 4] = [
        ("nothing", Bytes::new()),
        ("JSON", Bytes::from_static(b"{}")),
        ("no envelope", Bytes::from_static(b"k8s\0\xff")),
        ("no list", enclose("PodList", Bytes::from_static(b"\xff"))),
    ];
    for (what, encoded) in cases {
        assert!(answer(ObjectKind::Pod, encoded).is_err(), "{what}");
    }
    let torn = watch_event("ADDED", gone());
    let torn = Bytes::copy_from_slice(&torn[..torn.len() - 1]);
    let torn = StreamBody::new(stream::iter([Ok(Frame::data(torn))]));
    let read = block_on(events(ObjectKind::Pod, torn).try_collect::<Vec<_>>());
    assert!(read.is_err(), "half of an event");
}

/// Sends a request for a path to a server that answers with this type and body. Returns the
/// accepted encodings and the converted body.
fn asked(path: &str, content_type: &'static str, body: Bytes) -> (Option<HeaderValue>, Bytes) {
    let accepted = std::sync::Arc::new(std::sync::Mutex::new(None));
    let noted = accepted.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        *noted.lock().expect("no panic") = request.headers().get(ACCEPT).cloned();
        let answer = Response::builder()
            .status(StatusCode::OK)
            .header(CONTENT_TYPE, content_type)
            .body(Body::from(body.to_vec()).map_err(BoxError::from));
        async move { Ok::<_, BoxError>(answer.expect("an answer")) }
    });
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let answer = block_on(Translating(server).call(request)).expect("an answer");
    let body = block_on(answer.into_body().collect()).expect("a body");
    let accepted = accepted.lock().expect("no panic").clone();
    (accepted, body.to_bytes())
}

#[test]
fn protobuf_is_asked_for_where_decisions_read_all() {
    let is_asked = |path| asked(path, "application/json", Bytes::new()).0 == Some(ACCEPTED);
    assert!(is_asked("/api/v1/pods?limit=500"));
    assert!(is_asked(
        "/behind/a/proxy/apis/apps/v1/replicasets?watch=true"
    ));
    assert!(!is_asked("/api/v1/namespaces/default/configmaps/scheduler"));
    let json = Bytes::from_static(b"{}");
    assert_eq!(
        asked("/api/v1/pods", "application/json", json.clone()).1,
        json
    );
    let refused = asked("/api/v1/pods", PROTOBUF, gone()).1;
    let refused: Value = serde_json::from_slice(&refused).expect("JSON");
    assert_eq!(refused["reason"], "Expired");
    let event = Bytes::from(watch_event("ERROR", gone()));
    let line = asked(
        "/api/v1/pods",
        "application/vnd.kubernetes.protobuf;stream=watch",
        event,
    )
    .1;
    assert!(line.starts_with(br#"{"type":"ERROR","object":{"#) && line.ends_with(b"\n"));
}
