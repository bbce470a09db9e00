//! Nominated pods with disks, claims and affinity, compared with a recount.

use evenkeel::proto::v1::{Change, FilterRequest, Pod, View};
use serde_json::{Value, json};
use support::agree::{self, Question};
use support::model;
use support::recount::Cluster;
use support::server::Server;

const DISK: &str = "node(s) had no available disk";
const IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
    already in-use by another pod";

fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).expect("a pod")
}

fn disk(read_only: bool) -> Value {
    json!({"gcePersistentDisk": {"pdName": "d", "readOnly": read_only}})
}

fn once() -> Value {
    json!({"persistentVolumeClaim": {"claimName": "once"}})
}

/// Two nodes, and a claim that one pod alone may use.
fn changes(nominated: &Value) -> Vec<Change> {
    let all = json!([
        {"node": {"metadata": {"name": "a"}}},
        {"node": {"metadata": {"name": "b"}}},
        {"storageClass": {
            "metadata": {"name": "made"}, "provisioner": "disk.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }},
        {"persistentVolumeClaim": {
            "metadata": {"name": "once"},
            "spec": {"storageClassName": "made", "accessModes": ["ReadWriteOncePod"]},
        }},
        {"pod": nominated},
    ]);
    serde_json::from_value(all).expect("changes")
}

/// A pod that is nominated to node a.
fn nominated(namespace: &str, priority: i32, volumes: &[Value]) -> Value {
    json!({
        "metadata": {"name": "first", "namespace": namespace, "uid": "u"},
        "spec": {"priority": priority, "volumes": volumes},
        "status": {"nominatedNodeName": "a"},
    })
}

fn incoming(volumes: &[Value]) -> Value {
    json!({"metadata": {"name": "second"}, "spec": {"priority": 5, "volumes": volumes}})
}

#[tokio::test]
async fn nominated_pods_use_their_disks_and_some_of_their_claims() {
    let itself = json!({
        "metadata": {"name": "first", "uid": "u"},
        "spec": {"priority": 5, "volumes": [disk(false)]},
    });
    for (there, asked, refused) in [
        (
            nominated("default", 5, &[disk(false)]),
            incoming(&[disk(false)]),
            Some(DISK),
        ),
        (
            nominated("other", 9, &[disk(true)]),
            incoming(&[disk(false)]),
            Some(DISK),
        ),
        (
            nominated("default", 5, &[disk(true)]),
            incoming(&[disk(true)]),
            None,
        ),
        (
            nominated("default", 4, &[disk(false)]),
            incoming(&[disk(false)]),
            None,
        ),
        (nominated("default", 5, &[disk(false)]), itself, None),
        (
            nominated("default", 5, &[disk(false)]),
            incoming(&[once()]),
            None,
        ),
        // kube-scheduler looks at the claims of nominated pods only for an incoming pod with disks,
        // and then compares the names alone.
        (
            nominated("default", 5, &[once()]),
            incoming(&[once()]),
            None,
        ),
        (
            nominated("default", 5, &[once()]),
            incoming(&[once(), disk(true)]),
            Some(IN_USE),
        ),
        (
            nominated("other", 5, &[once()]),
            incoming(&[once(), disk(true)]),
            Some(IN_USE),
        ),
        (
            nominated("default", 5, &[once()]),
            incoming(&[disk(true)]),
            None,
        ),
    ] {
        let refused: Vec<_> = refused.map(|reason| ("a", reason, 1)).into_iter().collect();
        judge(&changes(&there), &asked, &refused).await;
    }
}

/// Asks a server and a recount which nodes are refused, why, and for how many nominated pods alone.
async fn judge(changes: &[Change], asked: &Value, refused: &[(&str, &str, i64)]) {
    let server = Server::start().await;
    let mut cluster = Cluster::default();
    changes
        .iter()
        .for_each(|change| model::apply(&mut cluster, change));
    server.update("", changes.to_vec()).await;
    let pod = pod(asked);
    let request = FilterRequest {
        pod: Some(pod.clone()),
        view: View::Full.into(),
        ..FilterRequest::default()
    };
    let answer = server.filter(request).await;
    let got = answer.infeasible.iter();
    let got: Vec<_> = got
        .map(|it| (&*it.node, &*it.reason, it.nominated_pods))
        .collect();
    assert_eq!(got, refused, "{asked} with {changes:?}");
    let question = Question {
        cluster: &cluster,
        pod: &pod,
        place: "beside a nominated pod",
    };
    agree::decisions(&server, "", &question).await;
}

/// Required anti-affinity to pods of `app` within the domains of a topology key.
fn away_from(app: &str, key: &str) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

/// kube-scheduler skips InterPodAffinity, also for nominated pods, when the incoming pod has no
/// required terms and no pod on a node keeps it away from a domain.
#[tokio::test]
async fn nominated_pods_keep_others_away_where_affinity_is_checked_anyway() {
    const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
    let nominated = json!({
        "metadata": {"name": "first", "uid": "u"},
        "spec": {"priority": 5, "affinity": away_from("web", "zone")},
        "status": {"nominatedNodeName": "a"},
    });
    let plain = json!({"metadata": {"name": "second", "labels": {"app": "web"}}});
    let with_terms = json!({
        "metadata": {"name": "second", "labels": {"app": "web"}},
        "spec": {"affinity": away_from("other", "zone")},
    });
    // A pod on node b, with anti-affinity to pods of an app.
    let on_b = |app: &str, key: &str| {
        json!({"pod": {
            "metadata": {"name": "there"},
            "spec": {"nodeName": "b", "affinity": away_from(app, key)},
        }})
    };
    for (asked, there, refused) in [
        (&plain, None, &[][..]),
        (&with_terms, None, &[("a", EXISTING, 1)]),
        (
            &plain,
            Some(on_b("web", "zone")),
            &[("a", EXISTING, 1), ("b", EXISTING, 0)],
        ),
        (&plain, Some(on_b("other", "zone")), &[]),
        // Node b is in no domain of this key.
        (&plain, Some(on_b("web", "rack")), &[]),
    ] {
        let mut changes = vec![
            json!({"node": {"metadata": {"name": "a", "labels": {"zone": "x"}}}}),
            json!({"node": {"metadata": {"name": "b", "labels": {"zone": "y"}}}}),
            json!({"pod": nominated}),
        ];
        changes.extend(there);
        let changes: Vec<Change> = serde_json::from_value(json!(changes)).expect("changes");
        judge(&changes, asked, refused).await;
    }
}
