//! Pods whose nodes callers have chosen count as if they were on these nodes, whatever their
//! constraints say, until they are on a node.

use evenkeel::proto::v1::{Change, FilterRequest, Node, NodeChecks, Pod};
use evenkeel::snapshot::Limits;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tonic::Code;

use super::held::{Held, TTL_SECONDS, WEB, template};
use support::agree::{self, Question};
use support::build::{
    ZONE, filter_of, hard, having, node, nominated, on, pod, pod_term, requesting, spread,
    with_affinity,
};
use support::caller::deletion;
use support::model::{self, Stored, delete};
use support::refusal::fields;
use support::server::Server;

const NODES: [(&str, &str); 3] = [("a", "1"), ("b", "1"), ("c", "2")];

fn nodes() -> Vec<Node> {
    let room = [("cpu", "4"), ("pods", "5")];
    let node = |(name, zone): (&str, &str)| having(node(name, &[(ZONE, zone)]), &room);
    NODES.map(node).to_vec()
}

const KINDS: usize = 9;

/// Pods that count for each other in different ways.
fn kinds(name: &str) -> [Pod; KINDS] {
    const DB: [(&str, &str); 1] = [("app", "db")];
    [
        spread(pod(name, &WEB), vec![hard(1, ZONE, &WEB)]),
        requesting(pod(name, &WEB), &[("cpu", "1500m")]),
        with_affinity(pod(name, &DB), &[], &[pod_term(ZONE, &WEB)]),
        with_affinity(pod(name, &DB), &[pod_term(ZONE, &WEB)], &[]),
        with_volume(name, json!({"rbd": {"image": "i", "monitors": ["m"]}})),
        with_volume(
            name,
            json!({"persistentVolumeClaim": {"claimName": "once"}}),
        ),
        with_volume(
            name,
            json!({"persistentVolumeClaim": {"claimName": "local"}}),
        ),
        with_volume(
            name,
            json!({"persistentVolumeClaim": {"claimName": "next"}, "ephemeral": template_claim()}),
        ),
        with_volume(name, json!({"ephemeral": template_claim()})),
    ]
}

fn template_claim() -> Value {
    json!({"volumeClaimTemplate": {"spec": {"storageClassName": "local"}}})
}

fn with_volume(name: &str, source: Value) -> Pod {
    let volume = serde_json::from_value(source).expect("a volume");
    let mut pod = pod(name, &WEB);
    pod.spec.get_or_insert_default().volumes = vec![volume];
    pod
}

/// A claim of one pod alone, whose volume may be made anywhere, and a claim for volumes that exist:
/// two in zone 1, and one for any zone.
fn storage() -> Vec<Change> {
    let waits = "WaitForFirstConsumer";
    let in_zone = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": ZONE, "operator": "In", "values": ["1"]},
    ]}]}});
    let volume = |name: &str, affinity: Value| {
        json!({"persistentVolume": {
            "metadata": {"name": name}, "status": {"phase": "Available"},
            "spec": {"storageClassName": "local", "nodeAffinity": affinity},
        }})
    };
    let all = json!([
        {"persistentVolumeClaim": {
            "metadata": {"name": "once"},
            "spec": {"storageClassName": "made", "accessModes": ["ReadWriteOncePod"]},
        }},
        {"persistentVolumeClaim": {
            "metadata": {"name": "local"}, "spec": {"storageClassName": "local"},
        }},
        {"storageClass": {
            "metadata": {"name": "made"}, "provisioner": "p", "volumeBindingMode": waits,
        }},
        {"storageClass": {
            "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": waits,
        }},
        volume("v1", in_zone.clone()),
        volume("v2", in_zone),
        volume("v3", Value::Null),
    ]);
    serde_json::from_value(all).expect("changes")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Some pods are assigned to nodes, and some of these are then assigned to others.
    #[test]
    fn they_count_as_pods_on_their_nodes(
        assigned in vec((0..6usize, 0..KINDS, 0..3usize), 1..10),
        arrived in vec((0..6usize, 0..3usize), 0..3),
    ) {
        let (runtime, server) = Server::shared();
        runtime.block_on(async {
            // The former snapshot is deleted, because reservations survive a replace.
            let _ = server.client().delete_snapshot(deletion("recounted")).await;
            let nodes = nodes().into_iter().map(Stored::change);
            let all: Vec<Change> = nodes.chain(storage()).collect();
            server.replace("recounted", all.clone(), Default::default()).await;
            let mut pods = [const { None }; 6];
            for (at, (number, kind, node)) in assigned.into_iter().enumerate() {
                let pod = kinds(&format!("pod-{number}"))[kind].clone();
                let node = NODES[node].0;
                let request = super::held::assignments("recounted", vec![(pod.clone(), node)]);
                assert_eq!(server.reserve_pods(request).await.reservation_ids.len(), 1);
                pods[number] = Some((Some(at), on(pod, node)));
            }
            for (number, node) in arrived {
                if let Some((reserved, pod)) = &mut pods[number] {
                    *reserved = None;
                    *pod = on(pod.clone(), NODES[node].0);
                    server.update("recounted", vec![pod.clone().change()]).await;
                }
            }
            let mut cluster = model::cluster(&all);
            for (reserved, mut pod) in pods.into_iter().flatten() {
                if let Some(number) = reserved {
                    // Reservations take volumes in the order of their numbers.
                    pod.metadata.get_or_insert_default().name = format!("~{number}");
                }
                cluster.pods.push(pod);
            }
            server.verify("recounted").await;
            for pod in &kinds("next") {
                let place = "after assignments";
                agree::decisions(server, "recounted", &Question { cluster: &cluster, pod, place }).await;
            }
        });
    }
}

#[tokio::test]
async fn an_event_of_before_does_not_end_them() {
    let held = Held::start().await;
    let web = pod("web-0", &WEB);
    let first = held.assign(vec![(web.clone(), "a")]).await;
    let first = first.expect("a valid request");
    assert_eq!(held.counts().await, [1, 0]);
    // Two more pods are assigned to this node, whatever the constraint says.
    let more = ["web-1", "web-2"].map(|name| (template_of(name), "a"));
    held.assign(more.to_vec()).await.expect("a valid request");
    assert_eq!(held.counts().await, [3, 0]);

    // The first event shows the pod still without a node, and the second on another node than the
    // chosen one.
    held.server.update("", vec![web.clone().change()]).await;
    assert_eq!(held.counts().await, [3, 0]);
    held.server.update("", vec![on(web, "b").change()]).await;
    assert_eq!(held.counts().await, [2, 1]);
    assert!(!held.release(&first.reservation_ids[0]).await);

    // The other reservations end by a release, and by time.
    let rest = held.list().await;
    assert!(held.release(&rest[0].id).await);
    assert_eq!(held.counts().await, [1, 1]);
    held.pass(TTL_SECONDS);
    assert_eq!(held.counts().await, [0, 1]);
}

#[tokio::test]
async fn one_on_a_node_counts_by_itself() {
    let held = Held::start().await;
    let (came, comes) = (pod("web-0", &WEB), pod("web-1", &WEB));
    held.server
        .update("", vec![on(came.clone(), "b").change()])
        .await;
    let answer = held.assign(vec![(came, "a"), (comes, "a")]).await;
    let ids = answer.expect("a valid request").reservation_ids;
    assert_eq!((&*ids[0], ids[1].is_empty()), ("", false));
    assert_eq!(held.counts().await, [1, 1]);
    // Another pod of that name has another uid.
    let mut next = pod("web-0", &WEB);
    next.metadata.as_mut().expect("it has").uid = "next".into();
    let mut former = on(pod("web-0", &WEB), "b");
    former.metadata.as_mut().expect("it has").uid = "former".into();
    held.server.update("", vec![former.change()]).await;
    held.assign(vec![(next, "a")])
        .await
        .expect("a valid request");
    assert_eq!(held.counts().await, [2, 1]);
    held.server
        .update("", vec![delete("Pod", "", "web-0")])
        .await;
    assert_eq!(held.counts().await, [2, 0]);
}

#[tokio::test]
async fn a_nominated_one_counts_where_it_goes_alone() {
    let held = Held::start().await;
    let mut came = pod("web-0", &WEB);
    came.metadata.as_mut().expect("it has").uid = "first".into();
    let came = nominated(came, "a", 1);
    let event = || async {
        held.server.update("", vec![came.clone().change()]).await;
    };
    let passes = async |max_skew| {
        let next = spread(pod("next", &WEB), vec![hard(max_skew, ZONE, &WEB)]);
        let request = FilterRequest {
            node_checks: NodeChecks::SpreadOnly as i32,
            ..filter_of(next)
        };
        held.server.verify("").await;
        held.server.filter(request).await.feasible.join(" ")
    };
    event().await;
    assert_eq!(passes(1).await, "b");
    // The pod is assigned to another node, then to the node that it is nominated to. An earlier
    // event comes late.
    for (node, without, within) in [("b", "a", "a b"), ("a", "b", "a b")] {
        let assigned = held.assign(vec![(came.clone(), node)]).await;
        let id = &assigned.expect("a valid request").reservation_ids[0];
        for _ in 0..2 {
            assert_eq!(passes(1).await, without);
            assert_eq!(passes(2).await, within);
            event().await;
        }
        assert!(held.confirm(id, "web-0", "other").await);
        assert_eq!(passes(2).await, within);
        assert!(held.release(id).await);
        assert_eq!(passes(1).await, "b");
    }
    // The pod is assigned again, and arrives.
    held.assign(vec![(came.clone(), "b")])
        .await
        .expect("a valid request");
    held.assign(vec![(came.clone(), "b")])
        .await
        .expect("a valid request");
    assert_eq!(passes(1).await, "a");
    held.server
        .update("", vec![on(came.clone(), "b").change()])
        .await;
    assert_eq!(passes(1).await, "a");
}

fn template_of(name: &str) -> Pod {
    let mut pod = template();
    pod.metadata.get_or_insert_default().name = name.into();
    pod
}

#[tokio::test]
async fn over_a_limit_nothing_is_held() {
    let limits = Limits {
        max_reservations: 2,
        max_replicas: 3,
        ..Limits::default()
    };
    let held = Held::with_limits(limits).await;
    let web = |name: &str| (pod(name, &WEB), "a");
    let mut long_uid = pod("web-0", &WEB);
    long_uid.metadata.as_mut().expect("it has").uid = "u".repeat(5_000);
    let refused = held
        .assign(vec![(long_uid, "a")])
        .await
        .expect_err("it is refused");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(fields(&refused), ["pods[0].pod.metadata.uid"]);
    // Four pods are more than a request may have, and three are more than may be held.
    for count in [4, 3] {
        let names = (0..count).map(|number| format!("web-{number}"));
        let pods = names.map(|name| (pod(&name, &WEB), "a")).collect();
        let refused = held.assign(pods).await.expect_err("it is refused");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
    assert_eq!(held.counts().await, [0, 0]);
    // A reservation that ends makes room.
    held.assign(vec![web("web-0"), web("web-1")])
        .await
        .expect("as many as may be held");
    held.assign(vec![web("web-1"), web("web-0")])
        .await
        .expect("the same again");
    assert_eq!(held.counts().await, [2, 0]);
}

#[tokio::test]
async fn nodes_that_the_snapshot_does_not_hold_are_told() {
    let held = Held::start().await;
    let pods = vec![
        (pod("p", &WEB), "strange"),
        (pod("q", &WEB), "a"),
        (pod("r", &WEB), "gone"),
        (pod("s", &WEB), "strange"),
    ];
    let answer = held.assign(pods).await.expect("they may be reserved");
    assert_eq!(answer.unknown_nodes, ["strange", "gone"]);
    assert_eq!(answer.reservation_ids.len(), 4);
}
