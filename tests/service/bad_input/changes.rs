//! Changes that an update, a stream and an overlay refuse.

use evenkeel::proto::v1::{
    Change, FilterRequest, IntOrString, LabelSelector, Namespace, Node, ObjectMeta, Pod,
    PodDisruptionBudget, PodDisruptionBudgetSpec, ReplicaSet, ReplicaSetSpec,
    ReplicationController, ReplicationControllerSpec, Service, StatefulSet, StatefulSetSpec,
    UpdateSnapshotRequest,
};

use super::verdict::{Call, Row, invalid, refused, server};
use support::build::{filter_of, meta, node, pairs, pod, requirement, service, tainted, update_of};
use support::model::{Stored, delete};

/// Rows of requests whose second change is bad and whose other changes are not, so that nothing is
/// applied. Paths are within the second change.
fn rows(name: &str, bad: Change, fields: &[&str]) -> [Row; 4] {
    let at = |prefix: &str| -> Vec<String> {
        let join = |f: &&str| match f.is_empty() {
            true => format!("{prefix}[1]"),
            false => format!("{prefix}[1].{f}"),
        };
        fields.iter().map(join).collect()
    };
    let changes = vec![
        node("new", &[]).change(),
        bad,
        delete("Pod", "default", "p0"),
    ];
    let update = update_of(changes.clone());
    let replace = UpdateSnapshotRequest {
        mode: 1,
        ..update_of(changes[..2].to_vec())
    };
    let overlay = FilterRequest {
        overlay: changes,
        ..filter_of(pod("", &[]))
    };
    let calls = [
        ("update", Call::Update(update.clone()), "changes"),
        ("replace", Call::Update(replace), "changes"),
        ("stream", Call::Stream(update), "update.changes"),
        ("overlay", Call::Filter(overlay), "overlay"),
    ];
    calls.map(|(way, call, list)| invalid(format!("{way}, {name}"), call, &at(list)))
}

fn labelled(labels: &[(&str, &str)]) -> Option<ObjectMeta> {
    Some(meta("x", labels))
}

#[tokio::test]
async fn names_and_labels() {
    let long = "v".repeat(300);
    let unnamed = |kind: &str| match kind {
        "node" => Node::default().change(),
        "pod" => Pod::default().change(),
        "service" => Service::default().change(),
        "replicaSet" => ReplicaSet::default().change(),
        "statefulSet" => StatefulSet::default().change(),
        "namespace" => Namespace::default().change(),
        "podDisruptionBudget" => PodDisruptionBudget::default().change(),
        _ => ReplicationController::default().change(),
    };
    let mut table = Vec::new();
    for kind in [
        "node",
        "pod",
        "service",
        "replicaSet",
        "statefulSet",
        "replicationController",
        "namespace",
        "podDisruptionBudget",
    ] {
        let field = format!("{kind}.metadata.name");
        table.extend(rows(
            &format!("{kind} without a name"),
            unnamed(kind),
            &[&field],
        ));
    }
    for name in [
        "Upper",
        "under_score",
        "-dash",
        "dot.",
        "a b",
        &"n".repeat(254),
    ] {
        let named = node(name, &[]).change();
        // The hostname label repeats the name.
        let fields: &[&str] = match name {
            "-dash" | "dot." | "a b" => &["node.metadata.name", "node.metadata.labels"],
            name if name.len() > 63 => &["node.metadata.name", "node.metadata.labels"],
            _ => &["node.metadata.name"],
        };
        table.extend(rows(name, named, fields));
    }
    for labels in [
        [("k", long.as_str())],
        [("k", "a b")],
        [("k", "-")],
        [("not a key", "")],
        [("", "v")],
        [("A_b/c", "v")],
    ] {
        let node = Node {
            metadata: labelled(&labels),
            ..Node::default()
        };
        let pod = pod("x", &labels);
        table.extend(rows(
            &format!("node {labels:?}"),
            node.change(),
            &["node.metadata.labels"],
        ));
        table.extend(rows(
            &format!("pod {labels:?}"),
            pod.change(),
            &["pod.metadata.labels"],
        ));
    }
    let dotted = Namespace {
        metadata: Some(meta("a.b", &[])),
    };
    let field = "namespace.metadata.name";
    table.extend(rows("namespace with a dot", dotted.change(), &[field]));
    let mut elsewhere = pod("x", &[]);
    elsewhere.metadata.get_or_insert_default().namespace = "Not A Namespace".into();
    table.extend(rows(
        "namespace",
        elsewhere.change(),
        &["pod.metadata.namespace"],
    ));
    refused(&server().await, table).await;
}

#[tokio::test]
async fn enumerated_strings_and_selectors() {
    let fine = || node("x", &[]);
    let taint = |key, value, effect| tainted(fine(), key, value, effect).change();
    let (mut nominated, mut asleep) = (pod("x", &[]), pod("x", &[]));
    nominated.status.get_or_insert_default().nominated_node_name = "no/node".into();
    asleep.status.get_or_insert_default().phase = "Sleeping".into();
    let tainted_once = tainted(fine(), "k", "a", "NoSchedule");
    let twice = tainted(tainted_once, "k", "b", "NoSchedule");
    let selector = Some(LabelSelector {
        match_labels: pairs(&[("k", "a b")]),
        match_expressions: vec![requirement("k", "like", &[])],
    });
    let replica_set = ReplicaSet {
        metadata: labelled(&[]),
        spec: Some(ReplicaSetSpec {
            selector: selector.clone(),
        }),
    };
    let stateful_set = StatefulSet {
        metadata: labelled(&[]),
        spec: Some(StatefulSetSpec {
            selector,
            ..StatefulSetSpec::default()
        }),
    };
    let service = service("x", &[("not a key", "")]);
    let controller = ReplicationController {
        metadata: labelled(&[]),
        spec: Some(ReplicationControllerSpec {
            selector: pairs(&[("k", "a b")]),
        }),
    };
    let table: [(&str, Change, &[&str]); 14] = [
        (
            "nominated to what cannot be a node",
            nominated.change(),
            &["pod.status.nominatedNodeName"],
        ),
        (
            "taint without a key",
            taint("", "", "NoSchedule"),
            &["node.spec.taints[0].key"],
        ),
        (
            "taint with a bad value",
            taint("k", "a b", "NoSchedule"),
            &["node.spec.taints[0].value"],
        ),
        (
            "taint without an effect",
            taint("k", "", ""),
            &["node.spec.taints[0].effect"],
        ),
        (
            "taint with an unknown effect",
            taint("k", "", "noExecute"),
            &["node.spec.taints[0].effect"],
        ),
        ("taint twice", twice.change(), &["node.spec.taints[1]"]),
        ("unknown phase", asleep.change(), &["pod.status.phase"]),
        (
            "replica set",
            replica_set.change(),
            &[
                "replicaSet.spec.selector.matchLabels",
                "replicaSet.spec.selector.matchExpressions[0].operator",
            ],
        ),
        (
            "stateful set",
            stateful_set.change(),
            &[
                "statefulSet.spec.selector.matchLabels",
                "statefulSet.spec.selector.matchExpressions[0].operator",
            ],
        ),
        ("service", service.change(), &["service.spec.selector"]),
        (
            "replication controller",
            controller.change(),
            &["replicationController.spec.selector"],
        ),
        (
            "delete of a kind in other letters",
            delete("pod", "", "x"),
            &["delete.kind"],
        ),
        (
            "delete of kinds",
            delete("ReplicaSets", "", "x"),
            &["delete.kind"],
        ),
        (
            "delete of nothing",
            delete("", "", ""),
            &["delete.kind", "delete.name"],
        ),
    ];
    let table = table
        .into_iter()
        .flat_map(|(name, bad, fields)| rows(name, bad, fields));
    refused(&server().await, table.collect()).await;
}

#[tokio::test]
async fn duplicates() {
    let mut named_twice = pod("p0", &[]);
    named_twice.metadata.get_or_insert_default().namespace = "default".into();
    let table = [
        ("the node again", node("new", &[("k", "v")]).change()),
        (
            "the node created and deleted",
            delete("Node", "ignored", "new"),
        ),
    ];
    let table = table
        .into_iter()
        .flat_map(|(name, bad)| rows(name, bad, &[""]));
    refused(&server().await, table.collect()).await;

    let update = update_of(vec![pod("p0", &[]).change(), named_twice.change()]);
    let name = "one namespace in two words";
    let row = invalid(name, Call::Update(update), &["changes[1]"]);
    refused(&server().await, vec![row]).await;
}

/// All faults of all changes come back at once.
#[tokio::test]
async fn all_faults_of_a_batch_at_once() {
    let update = UpdateSnapshotRequest {
        snapshot: "no spaces".into(),
        changes: vec![
            tainted(node("UPPER", &[]), "", "", "?").change(),
            node("fine", &[]).change(),
            Pod::default().change(),
            delete("Pod", "", ""),
        ],
        ..UpdateSnapshotRequest::default()
    };
    let fields = [
        "snapshot",
        "changes[0].node.metadata.name",
        "changes[0].node.spec.taints[0].key",
        "changes[0].node.spec.taints[0].effect",
        "changes[2].pod.metadata.name",
        "changes[3].delete.name",
    ];
    let row = invalid("all", Call::Update(update), &fields);
    refused(&server().await, vec![row]).await;
}

#[tokio::test]
async fn pod_disruption_budgets() {
    let number = |int_val| IntOrString {
        int_val,
        ..IntOrString::default()
    };
    let text = |text: &str| IntOrString {
        r#type: 1,
        str_val: text.into(),
        ..IntOrString::default()
    };
    let budget = |min, max| {
        let budget = PodDisruptionBudget {
            metadata: labelled(&[]),
            spec: Some(PodDisruptionBudgetSpec {
                min_available: min,
                max_unavailable: max,
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        };
        budget.change()
    };
    let (min, max) = (
        "podDisruptionBudget.spec.minAvailable",
        "podDisruptionBudget.spec.maxUnavailable",
    );
    let cases = [
        ("a negative number", budget(Some(number(-1)), None), min),
        ("a text", budget(None, Some(text("half"))), max),
        ("too many", budget(None, Some(text("101%"))), max),
        ("a sign", budget(Some(text("+5%")), None), min),
        ("both", budget(Some(number(1)), Some(number(1))), max),
    ];
    let mut table = Vec::new();
    for (name, change, field) in cases {
        table.extend(rows(name, change, &[field]));
    }
    refused(&server().await, table).await;
}
