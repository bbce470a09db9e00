//! What depends on room besides the verdicts: placing and reserving take it,
//! overlays give it back, and an answer says what was not checked.

use std::time::Duration;

use crate::support::server::Server;
use evenkeel::proto::v1::{
    Change, FilterRequest, FilterResponse, NodeChecks, PlaceRequest, Pod, Reservation,
    UpdateSnapshotRequest,
};
use serde_json::{Value, json};
use tonic::Code;

fn changes(changes: Value) -> Vec<Change> {
    serde_json::from_value(changes).expect("changes")
}

fn pod(spec: Value) -> Option<Pod> {
    Some(serde_json::from_value(json!({"spec": spec})).expect("a pod"))
}

/// A spec that requests so much cpu.
fn cpu(amount: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {"cpu": amount}}}]})
}

fn small() -> Value {
    json!([
        {"node": {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": 2, "pods": "3"}}}},
        {"node": {"metadata": {"name": "b"}, "status": {"allocatable": {"cpu": 1, "pods": "9"}}}},
    ])
}

async fn filter(server: &Server, spec: Value, overlay: Value) -> FilterResponse {
    let request = FilterRequest {
        pod: pod(spec),
        overlay: changes(overlay),
        ..FilterRequest::default()
    };
    server.filter(request).await
}

fn reasons(answer: &[evenkeel::proto::v1::ReasonCount]) -> Vec<(&str, i64)> {
    answer.iter().map(|r| (&*r.reason, r.count)).collect()
}

#[tokio::test]
async fn placing_and_reserving_take_room() {
    let server = Server::start().await;
    server.update("", changes(small())).await;
    let place = PlaceRequest {
        pod: pod(cpu("500m")),
        replicas: 9,
        reserve: Some(Reservation {
            owner: "test".into(),
            ttl: Some(Duration::from_secs(600).into()),
        }),
        ..PlaceRequest::default()
    };
    let answer = server
        .client()
        .place(place)
        .await
        .expect("placed")
        .into_inner();
    let on = |name: &str| answer.placements.iter().filter(|p| p.node == name).count();
    assert_eq!((on("a"), on("b"), answer.unplaced), (3, 2, 4));
    assert_eq!(
        reasons(&answer.reasons),
        [("Insufficient cpu", 1), ("Too many pods", 1)]
    );

    let full = filter(&server, cpu("1m"), json!([])).await;
    assert_eq!(full.feasible_count, 0);
    assert_eq!(
        reasons(&full.reasons),
        [("Insufficient cpu", 1), ("Too many pods", 1)]
    );
}

#[tokio::test]
async fn a_host_port_is_placed_once_on_a_node() {
    let server = Server::start().await;
    server.update("", changes(small())).await;
    let place = PlaceRequest {
        pod: pod(json!({"containers": [{"ports": [{"hostPort": 80}]}]})),
        replicas: 3,
        ..PlaceRequest::default()
    };
    let answer = server
        .client()
        .place(place)
        .await
        .expect("placed")
        .into_inner();
    assert_eq!((answer.placements.len(), answer.unplaced), (2, 1));
    let taken = "node(s) didn't have free ports for the requested pod ports";
    assert_eq!(reasons(&answer.reasons), [(taken, 2)]);
}

/// Pods of all namespaces take room.
#[tokio::test]
async fn an_overlay_changes_room_in_any_namespace() {
    let server = Server::start().await;
    server.update("", changes(small())).await;
    let mut large = cpu("1500m");
    large["nodeName"] = json!("a");
    let large = json!({"pod": {"metadata": {"name": "p", "namespace": "other"}, "spec": large}});
    let wanted = || cpu("1");
    assert_eq!(
        filter(&server, wanted(), json!([])).await.feasible,
        ["a", "b"]
    );
    assert_eq!(
        filter(&server, wanted(), json!([large])).await.feasible,
        ["b"]
    );

    server.update("", changes(json!([large]))).await;
    assert_eq!(filter(&server, wanted(), json!([])).await.feasible, ["b"]);
    let gone = json!([{"delete": {"kind": "Pod", "namespace": "other", "name": "p"}}]);
    assert_eq!(filter(&server, wanted(), gone).await.feasible, ["a", "b"]);
}

#[tokio::test]
async fn an_answer_names_what_was_not_checked() {
    let server = Server::start().await;
    let nodes = json!([{"node": {"metadata": {"name": "a"}}}]);
    server.update("", changes(nodes)).await;
    let spec = json!({
        "containers": [{"resources": {"requests": {"cpu": "64"}}, "ports": [{"hostPort": 80}]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "gpu"}],
        "affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}],
        }},
    });
    let always = [
        "spec.affinity.podAntiAffinity",
        "spec.resourceClaims",
        "spec.volumes",
    ];
    let answer = filter(&server, spec.clone(), json!([])).await;
    assert_eq!(answer.feasible, ["a"]);
    let mut all = always.to_vec();
    all.insert(1, "spec.containers.ports.hostPort");
    all.insert(2, "spec.containers.resources.requests");
    assert_eq!(answer.unchecked, all);
    let answer = filter(&server, spec.clone(), small()).await;
    assert_eq!(
        (answer.feasible_count, &*answer.unchecked),
        (0, &always.map(str::to_owned)[..])
    );
    let request = FilterRequest {
        pod: pod(spec),
        node_checks: NodeChecks::SpreadOnly.into(),
        ..FilterRequest::default()
    };
    assert!(server.filter(request).await.unchecked.is_empty());
}

#[tokio::test]
async fn what_is_no_quantity_is_refused() {
    let server = Server::start().await;
    let node = |cpu: &str| json!({"node": {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": cpu}}}});
    let with = |spec: Value| json!({"pod": {"metadata": {"name": "p"}, "spec": spec}});
    let port = json!({"containers": [{"ports": [{"hostPort": 65536}]}]});
    let cases = [
        (node("1 core"), "changes[0].node.status.allocatable"),
        (node("-1"), "changes[0].node.status.allocatable"),
        (
            with(cpu("1K")),
            "changes[0].pod.spec.containers[0].resources.requests",
        ),
        (
            with(json!({"overhead": {"cpu": ""}})),
            "changes[0].pod.spec.overhead",
        ),
        (
            with(port),
            "changes[0].pod.spec.containers[0].ports[0].hostPort",
        ),
    ];
    for (change, field) in cases {
        let request = UpdateSnapshotRequest {
            changes: changes(json!([change])),
            ..UpdateSnapshotRequest::default()
        };
        let refused = server.client().update_snapshot(request).await;
        let status = refused.expect_err("it is refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        assert!(status.message().contains(field), "{field}: {status}");
    }
}
