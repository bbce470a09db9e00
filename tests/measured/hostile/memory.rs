//! The memory of a server stays near what its allocator has given out, and within a limit if there is
//! one. What is deleted is given back.

use std::collections::BTreeMap;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{
    Change, LabelSelector, LabelSelectorRequirement, Node, ObjectMeta, ObjectReference, Pod,
    PodSpec, ReplicaSet, ReplicaSetSpec, Toleration, VerifySnapshotRequest,
};
use tonic::Code;

use crate::hostile::attack::{AttackStep, Scene, attack};
use crate::hostile::process::{Server, until};
use crate::hostile::world::{Client, limit_of, question};
use support::build::batch_of;
use support::caller::deletion;

/// A label value of the greatest length, a different one for each pair.
fn value(number: usize, of: usize) -> String {
    format!("{number:030}-{of:032}")
}

fn values(number: usize, count: usize) -> Vec<String> {
    (0..count).map(|i| value(number, i)).collect()
}

fn metadata(namespace: &str, name: String, labels: BTreeMap<String, String>) -> Option<ObjectMeta> {
    Some(ObjectMeta {
        name,
        namespace: namespace.into(),
        labels,
        ..ObjectMeta::default()
    })
}

fn change(object: Object) -> Change {
    Change {
        object: Some(object),
    }
}

fn update(snapshot: &str, objects: impl IntoIterator<Item = Object>) -> AttackStep {
    let changes = objects.into_iter().map(change);
    AttackStep::Update(batch_of(snapshot, changes.collect()))
}

fn selector(number: usize, count: usize) -> LabelSelector {
    let requirement = LabelSelectorRequirement {
        key: "app".into(),
        operator: "NotIn".into(),
        values: values(number, count),
    };
    LabelSelector {
        match_expressions: vec![requirement],
        ..LabelSelector::default()
    }
}

fn replica_set(number: usize) -> Object {
    Object::ReplicaSet(ReplicaSet {
        metadata: metadata("", format!("owner-{number}"), BTreeMap::new()),
        spec: Some(ReplicaSetSpec {
            selector: Some(selector(number, 16_000)),
        }),
    })
}

fn pod(namespace: &str, name: String, labels: BTreeMap<String, String>) -> Pod {
    Pod {
        metadata: metadata(namespace, name, labels),
        ..Pod::default()
    }
}

/// A question about a pod with a changed spec.
fn asked(change: impl FnOnce(&mut PodSpec)) -> AttackStep {
    let mut filter = question("web");
    let spec = filter.pod.as_mut().and_then(|pod| pod.spec.as_mut());
    change(spec.expect("a question has one"));
    AttackStep::Filter(filter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_with_large_selectors() {
    attack(&[], 40, |step| update("", [replica_set(step)])).await;
}

/// A hundred pods, each with long labels that no other has.
fn with_long_labels(step: usize) -> impl Iterator<Item = Object> {
    let labels = move |pod: usize| {
        let label = |i| (format!("key-{i}"), value(step * 100 + pod, i));
        (0..50).map(label).collect()
    };
    let pods = (0..100).map(move |i| pod("", format!("pod-{step}-{i}"), labels(i)));
    pods.map(Object::Pod)
}

/// A verification builds a second state. Where there is no memory for it, it is refused, and the
/// memory is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_without_memory_is_refused() {
    const LIMIT: usize = 96 << 20;
    let server = Server::start(&["--max-memory-bytes", &LIMIT.to_string()]);
    let fresh = server.peak_memory();
    let mut client = Client::new(server.channel());
    let batch =
        |snapshot: &str, step| batch_of(snapshot, with_long_labels(step).map(change).collect());
    for (snapshot, steps) in [("small", 0..1), ("large", 1..1_000)] {
        for step in steps {
            if let Err(status) = client.update_snapshot(batch(snapshot, step)).await {
                assert_eq!(limit_of(&status).as_deref(), Some("max-memory-bytes"));
                break;
            }
        }
    }
    let verify = async |snapshot: &str| {
        let mut client = client.clone();
        let snapshot = snapshot.to_owned();
        let verified = client.verify_snapshot(VerifySnapshotRequest { snapshot });
        verified.await
    };
    let refused = verify("large").await.expect_err("twice as much");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(limit_of(&refused).as_deref(), Some("max-memory-bytes"));
    server.delete("large").await;
    let verified = verify("small").await.expect("there is room").into_inner();
    assert_eq!((verified.pod_count, verified.mismatch_count), (100, 0));
    let grown = server.peak_memory() - fresh;
    assert!(grown < LIMIT / 10 * 13, "{grown} bytes more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_snapshots() {
    let step = |step| {
        let pod = pod("", "p".into(), BTreeMap::new());
        update(&format!("s-{step}"), [Object::Pod(pod)])
    };
    attack(&["--max-snapshots", "20000"], 10_000, step).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staged_replaces() {
    attack(&[], 40, |step| AttackStep::Stage(change(replica_set(step)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_while_nodes_come_and_go() {
    let step = |step: usize| {
        if step.is_multiple_of(20) {
            let node = |i| {
                let zone = [("zone".to_owned(), format!("zone-{}", i % 10))];
                Object::Node(Node {
                    metadata: metadata("", format!("n-{step}-{i}"), zone.into()),
                    ..Node::default()
                })
            };
            return update("", (0..2_000).map(node));
        }
        asked(|spec| {
            spec.tolerations = vec![Toleration {
                key: format!("key-{step}"),
                operator: "Exists".into(),
                ..Toleration::default()
            }];
            for constraint in &mut spec.topology_spread_constraints {
                constraint.node_taints_policy = Some("Honor".into());
            }
        })
    };
    attack(&[], 200, step).await;
}

/// What an allocator may keep of what was given back: in tables that shrink later, and for threads.
const LEFT: usize = 2 << 20;

/// Waits until little more is given out than these bytes.
fn assert_given_back(scene: &Scene, before: usize) {
    until("the memory is given back", || {
        (scene.accounted() <= before + LEFT).then_some(())
    });
}

/// The memory of deleted objects is given back, and that of a replace that was given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_is_given_back() {
    let scene = &mut Scene::start(&[]).await;
    let before = scene.accounted();
    for step in 0..4 {
        let update = update("s", [replica_set(step)]);
        scene.deal(update).await.expect("within the limits");
        let stage = AttackStep::Stage(change(replica_set(step)));
        scene.deal(stage).await.expect("within the limits");
    }
    assert!(scene.accounted() > before + 4_000_000);
    let deleted = scene.client.delete_snapshot(deletion("s")).await;
    deleted.expect("it exists");
    scene.feeds.clear();
    assert_given_back(scene, before);
}

/// Pods with label sets of their own, as those of jobs have, leave nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_label_sets_leaves_nothing_behind() {
    const PODS: usize = 60_000;
    let scene = &mut Scene::start(&[]).await;
    let name = |number: usize| format!("job-{number}");
    let come = |number| {
        let labels = [("app", "job".to_owned()), ("pod", name(number))];
        let labels = labels.map(|(key, value)| (key.to_owned(), value));
        Object::Pod(pod("", name(number), labels.into()))
    };
    let go = |number| {
        Object::Delete(ObjectReference {
            kind: "Pod".into(),
            namespace: "default".into(),
            name: name(number),
            ..ObjectReference::default()
        })
    };
    let before = scene.accounted();
    for first in (0..PODS).step_by(2_000) {
        let step = update("", (first..first + 2_000).map(come));
        scene.deal(step).await.expect("within the limits");
    }
    let full = scene.accounted();
    assert!(full > before + PODS * 100, "{before} bytes grew to {full}");
    for first in (0..PODS).step_by(2_000) {
        let step = update("", (first..first + 2_000).map(go));
        scene.deal(step).await.expect("within the limits");
    }
    assert_given_back(scene, before);
}

/// Names of nodes that come and go do not pile up, while a question looks at all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_nodes_leave_nothing_behind() {
    let scene = &mut Scene::start(&[]).await;
    let mut early = 0;
    for round in 0..150 {
        let name = |number| format!("round-{round}-{number}-{}", "n".repeat(40));
        let come = |number| {
            let zone = [("zone".to_owned(), "zone-0".to_owned())];
            Object::Node(Node {
                metadata: metadata("", name(number), zone.into()),
                ..Node::default()
            })
        };
        let go = |number| {
            Object::Delete(ObjectReference {
                kind: "Node".into(),
                name: name(number),
                ..ObjectReference::default()
            })
        };
        for step in [
            update("", (0..200).map(come)),
            AttackStep::Filter(question("web")),
            update("", (0..200).map(go)),
        ] {
            scene.deal(step).await.expect("within the limits");
        }
        if round == 10 {
            early = scene.accounted();
        }
    }
    assert_given_back(scene, early);
}

/// A namespace with few pods takes little.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_of_few_pods_takes_little() {
    const NAMESPACES: usize = 2_000;
    let scene = &mut Scene::start(&[]).await;
    let before = scene.accounted();
    let pod = |i| pod(&format!("ns-{i}"), "p".into(), BTreeMap::new());
    let step = update("", (0..NAMESPACES).map(pod).map(Object::Pod));
    scene.deal(step).await.expect("within the limits");
    let each = (scene.accounted() - before) / NAMESPACES;
    assert!(each < 4_096, "{each} bytes a namespace");
}
