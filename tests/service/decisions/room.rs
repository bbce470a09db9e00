//! Room on nodes: placements and reservations take it, and overlays can give it back.

use std::time::Duration;

use evenkeel::proto::v1::{Change, FilterRequest, FilterResponse, PlaceRequest, Pod};
use serde_json::{Value, json};
use support::build::hold_of;
use support::recount::requests;
use support::server::Server;

pub(crate) fn changes(changes: Value) -> Vec<Change> {
    serde_json::from_value(changes).expect("changes")
}

pub(crate) fn pod(spec: Value) -> Option<Pod> {
    Some(serde_json::from_value(json!({"spec": spec})).expect("a pod"))
}

/// A spec that requests this much cpu.
pub(crate) fn cpu(amount: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {"cpu": amount}}}]})
}

/// Two nodes: a has more cpu, and takes fewer pods.
pub(crate) fn small() -> Value {
    json!([
        {"node": {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": 2, "pods": "3"}}}},
        {"node": {"metadata": {"name": "b"}, "status": {"allocatable": {"cpu": 1, "pods": "9"}}}},
    ])
}

pub(crate) async fn filter(server: &Server, spec: Value, overlay: Value) -> FilterResponse {
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

/// A server on the two nodes.
pub(crate) async fn on_two_nodes() -> Server {
    let server = Server::start().await;
    server.update("", changes(small())).await;
    server
}

#[tokio::test]
async fn placing_and_reserving_take_room() {
    let server = on_two_nodes().await;
    let request = PlaceRequest {
        pod: pod(cpu("500m")),
        replicas: 9,
        reserve: hold_of(Pod::default(), 9, Duration::from_secs(600)).reserve,
        ..PlaceRequest::default()
    };
    let answer = server.place(request).await;
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

/// A spec that requests an amount of one resource.
fn asks(resource: &str, amount: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {resource: amount}}}]})
}

/// Amounts at the edges count as a recount has them: an amount fits on a node that
/// has as much, and not on one that has less by one.
#[tokio::test]
async fn quantities_at_the_edges() {
    let server = Server::start().await;
    let nothing = json!([{"node": {"metadata": {"name": "nothing"}}}]);
    server.update("", changes(nothing)).await;
    let texts = "0 1n 0.1n 0.1Mi .5 1e30 1e400 1e-400 1E 8Ei 7.9Ei 9223372036854775807 \
        9223372036854775807m 9999999999999999999 0.0000000001Ei 3.76022846700396791863243Ei \
        1234567890123456789012345678901e-30 2500u 1e3 -0 0.0 +1 1. 1500m 5e-1 1k 100Ki \
        1.0000001Gi 128974848000m 007 0.0000000000000000000000000000000000001 \
        10000000000000000000000000000000000e-34";
    for resource in ["cpu", "memory", "a.b/c"] {
        for text in texts.split_whitespace() {
            let amount = requests::amount(resource, text);
            let unit = if resource == "cpu" { "m" } else { "" };
            let node = |name: &str, has: i128| {
                let has = format!("{}{unit}", has.max(0));
                json!({"node": {"metadata": {"name": name},
                    "status": {"allocatable": {resource: has, "pods": "9"}}}})
            };
            let nodes = json!([node("as-much", amount), node("less", amount - 1)]);
            let answer = filter(&server, asks(resource, text), nodes).await;
            let fits: &[&str] = match amount {
                0 => &["as-much", "less"],
                _ => &["as-much"],
            };
            assert_eq!(answer.feasible, fits, "{text} of {resource}");
        }
    }
}

/// Pods with 1,000 containers, and nodes with 1,000 resources.
#[tokio::test]
async fn a_thousand_of_everything() {
    let server = Server::start().await;
    let name = |i: usize| format!("example.com/r{i:03}");
    let all: serde_json::Map<String, Value> = (0..1_000).map(|i| (name(i), json!("3"))).collect();
    let mut allocatable = all.clone();
    allocatable.insert("pods".into(), json!("9"));
    let containers: Vec<Value> = (0..1_000)
        .map(|i| {
            let requests = json!({name(i): "1", "cpu": "0"});
            let ports = json!([{"hostPort": i + 1}]);
            json!({"ports": ports, "resources": {"requests": requests}})
        })
        .collect();
    let node = |name: &str| json!({"node": {"metadata": {"name": name}, "status": {"allocatable": allocatable}}});
    let portless = |mut containers: Vec<Value>| {
        let all = containers.iter_mut().filter_map(Value::as_object_mut);
        all.for_each(|container| drop(container.remove("ports")));
        containers
    };
    let on = |name: &str, node: &str| {
        json!({"pod": {"metadata": {"name": name},
            "spec": {"nodeName": node, "containers": portless(containers.clone())}}})
    };
    let state = changes(json!([
        node("a"),
        node("b"),
        on("p", "a"),
        on("q", "a"),
        on("r", "a")
    ]));
    server.update("", state).await;
    let full = filter(&server, json!({"containers": containers}), json!([])).await;
    assert_eq!(full.feasible, ["b"]);
    assert_eq!(full.reasons.len(), 1_000, "one for each resource");
    let request = PlaceRequest {
        pod: pod(json!({"containers": portless(containers.clone())})),
        replicas: 5,
        ..PlaceRequest::default()
    };
    let placed = server.place(request).await;
    assert_eq!((placed.placements.len(), placed.unplaced), (3, 2));
    server.verify("").await;
}
