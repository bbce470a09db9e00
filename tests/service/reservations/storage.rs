//! Reservations hold the volumes that claims of their pods would be bound to.

use evenkeel::proto::v1::{Change, PlaceRequest, Pod};
use serde_json::{Value, json};

use super::held::{Held, request};
use support::build::{ZONE, explain_of, filter_of};

const NOTHING_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";

/// A class whose volumes exist, and one whose volumes are made.
fn classes() -> [Value; 2] {
    let class = |name: &str, provisioner: &str| {
        json!({"storageClass": {
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }})
    };
    [
        class("local", "kubernetes.io/no-provisioner"),
        class("made", "disk.example.com"),
    ]
}

/// A volume of the class `local` for the nodes of a zone.
fn volume(name: &str, zone: &str) -> Value {
    json!({"persistentVolume": {
        "metadata": {"name": name}, "status": {"phase": "Available"},
        "spec": {
            "storageClassName": "local", "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": ZONE, "operator": "In", "values": [zone]},
            ]}]}},
        },
    }})
}

fn claim(name: &str, class: &str) -> Value {
    json!({"persistentVolumeClaim": {
        "metadata": {"name": name}, "spec": {"storageClassName": class},
    }})
}

/// A server with this storage.
async fn with_storage(storage: Vec<Value>) -> Held {
    let held = Held::start().await;
    let all = classes().into_iter().chain(storage);
    let changes: Vec<Change> = serde_json::from_value(all.collect()).expect("changes");
    held.server.update("", changes).await;
    held
}

/// A pod with one volume.
fn with_volume(source: Value) -> Pod {
    let mut volume = source;
    volume["name"] = "data".into();
    serde_json::from_value(json!({"spec": {"volumes": [volume]}})).expect("a pod")
}

/// A pod with a claim that exists.
fn using(claim: &str) -> Pod {
    with_volume(json!({"persistentVolumeClaim": {"claimName": claim}}))
}

/// A pod of a StatefulSet, whose claim is yet to be made.
fn with_own(class: &str) -> Pod {
    with_volume(json!({
        "persistentVolumeClaim": {"claimName": "data-web-0"},
        "ephemeral": {"volumeClaimTemplate": {"spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOncePod"],
        }}},
    }))
}

/// Places and holds this many. Returns their nodes, and the ids of the reservations.
async fn reserve(held: &Held, pod: &Pod, replicas: i32) -> (String, Vec<String>) {
    let request = PlaceRequest {
        pod: Some(pod.clone()),
        ..request(replicas)
    };
    let placements = held.server.place(request).await.placements;
    let mut nodes: Vec<&str> = placements.iter().map(|it| &*it.node).collect();
    nodes.sort_unstable();
    let ids = placements.iter().map(|it| it.reservation_id.clone());
    (nodes.join(" "), ids.collect())
}

/// Returns the nodes that take a pod, and the reasons of the others.
async fn taken_by(held: &Held, pod: &Pod) -> (String, Vec<String>) {
    let answer = held.server.filter(filter_of(pod.clone())).await;
    let reasons = answer.reasons.into_iter().map(|reason| reason.reason);
    (answer.feasible.join(" "), reasons.collect())
}

#[tokio::test]
async fn a_volume_is_held_for_each_claim_that_is_yet_to_be_made() {
    let held = with_storage(vec![volume("in-a", "a"), volume("in-b", "b")]).await;
    let own = with_own("local");
    let (nodes, first) = reserve(&held, &own, 1).await;
    assert_eq!(nodes, "a");
    assert_eq!(taken_by(&held, &own).await.0, "b");
    // Another pod that wants a volume of the class does not get this one either.
    let claims = serde_json::from_value(json!([claim("other", "local")]));
    held.server.update("", claims.expect("changes")).await;
    assert_eq!(taken_by(&held, &using("other")).await.0, "b");
    assert_eq!(reserve(&held, &own, 2).await.0, "b");
    let none = (String::new(), vec![NOTHING_TO_BIND.to_owned()]);
    assert_eq!(taken_by(&held, &own).await, none);
    let explain = explain_of(own.clone());
    let hints = held.server.explain(explain).await.hints;
    let mut words = hints.iter().map(|hint| &*hint.message);
    assert!(words.any(|it| it.contains("(reservations hold 2 volumes)")));
    assert!(held.release(&first[0]).await);
    assert_eq!(taken_by(&held, &own).await.0, "a");
}

#[tokio::test]
async fn a_claim_that_waits_belongs_where_it_was_reserved() {
    let storage = vec![
        volume("in-a", "a"),
        volume("in-b", "b"),
        claim("shared", "local"),
        claim("new", "made"),
    ];
    let held = with_storage(storage).await;
    for claim in ["shared", "new"] {
        let pod = using(claim);
        assert_eq!(taken_by(&held, &pod).await.0, "a b");
        let (node, ids) = reserve(&held, &pod, 1).await;
        assert_eq!(taken_by(&held, &pod).await.0, node, "{claim}");
        // A volume for another claim can be made anywhere.
        assert_eq!(taken_by(&held, &with_own("made")).await.0, "a b");
        assert!(held.release(&ids[0]).await);
        assert_eq!(taken_by(&held, &pod).await.0, "a b");
    }
}

/// Each replica of a StatefulSet has a claim of its own, also where one pod alone may use it.
#[tokio::test]
async fn claims_that_are_yet_to_be_made_are_each_picks_own() {
    let held = with_storage(Vec::new()).await;
    assert_eq!(reserve(&held, &with_own("made"), 3).await.1.len(), 3);
    assert_eq!(taken_by(&held, &with_own("made")).await.0, "a b");
}
