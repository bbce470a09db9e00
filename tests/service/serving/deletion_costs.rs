//! Deletion costs: a ReplicaSet that reads them keeps its pods spread. Few are written, and none
//! over a value that somebody else has written.

use std::collections::BTreeMap;
use std::process::Output;

use serde_json::{Value, json};

use crate::serving::api_server::{ApiServer, managed};
use crate::serving::process::{command, run, until};
use crate::serving::watching::Watching;

const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

fn pod(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "u", "controller": true}],
        },
        "spec": {"nodeName": zone, "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]},
        "status": {"phase": "Running"},
    })
}

/// Three zones of a node each, with four pods each.
fn cluster() -> ApiServer {
    let cluster = ApiServer::start();
    for zone in ["a", "b", "c"] {
        let labels = json!({"zone": zone});
        let metadata = json!({"name": zone, "labels": labels});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        cluster.put("nodes", node);
        for number in 0..4 {
            cluster.put("pods", pod(&format!("{zone}{number}"), zone));
        }
    }
    cluster
}

/// Pods that have a value, each with value, name and zone, in the order in which a ReplicaSet
/// deletes them.
fn order(cluster: &ApiServer) -> Vec<(i32, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = cluster.objects("pods").into_iter().filter_map(|pod| {
        let cost = pod["metadata"]["annotations"][ANNOTATION].as_str()?;
        let cost = cost.parse().expect("a number");
        let (name, zone) = (&pod["metadata"]["name"], &pod["spec"]["nodeName"]);
        Some((cost, text(name), text(zone)))
    });
    let mut pods: Vec<_> = pods.collect();
    pods.sort();
    pods
}

/// Checks that the pods that stay are even, however many of the others go.
fn stays_even(order: &[(i32, String, String)]) {
    for gone in 0..order.len() {
        let mut counts = BTreeMap::from([("a", 0), ("b", 0), ("c", 0)]);
        for (_, _, zone) in &order[gone..] {
            *counts.get_mut(&**zone).expect("a zone") += 1;
        }
        let skew = counts.values().max().expect("zones") - counts.values().min().expect("zones");
        assert!(skew <= 1, "{counts:?} of {order:?}");
    }
}

fn write(cluster: &ApiServer, more: &[&str]) -> Output {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let mut line = vec!["deletion-costs", "--kubeconfig", &kubeconfig];
    line.extend(more);
    run(command(&line))
}

fn lines(output: &Output) -> usize {
    assert!(output.status.success(), "{output:?}");
    output.stdout.iter().filter(|it| **it == b'\n').count()
}

#[test]
fn a_command_writes_what_has_changed() {
    let cluster = cluster();
    assert_eq!(lines(&write(&cluster, &["--dry-run"])), 12);
    assert_eq!(cluster.applied(), 0);
    let misspelt = write(&cluster, &["-n", "shp"]);
    let told = String::from_utf8_lossy(&misspelt.stderr);
    assert_eq!(misspelt.status.code(), Some(2), "{told}");
    assert!(told.contains("no pod in it: shp; there is shop"), "{told}");
    assert_eq!(cluster.applied(), 0);
    assert_eq!(lines(&write(&cluster, &[])), 12);
    stays_even(&order(&cluster));
    assert_eq!(lines(&write(&cluster, &["-n", "shop"])), 0);
    // A ReplicaSet scales down, and up again.
    for (_, name, _) in &order(&cluster)[..6] {
        cluster.delete("pods", &format!("shop/{name}"));
    }
    assert_eq!(lines(&write(&cluster, &[])), 0);
    for zone in ["a", "b", "c"] {
        cluster.put("pods", pod(&format!("{zone}9"), zone));
    }
    assert_eq!(lines(&write(&cluster, &[])), 3);
    stays_even(&order(&cluster));
    assert_eq!(order(&cluster).len(), 9);
    assert_eq!(cluster.applied(), 15);
}

#[test]
fn what_somebody_else_wrote_stays() {
    let cluster = cluster();
    let mut own = pod("a3", "a");
    own["metadata"]["annotations"] = json!({ANNOTATION: "7"});
    own["metadata"]["managedFields"] = json!([managed("kubectl-annotate", ANNOTATION)]);
    cluster.put("pods", own);
    let written = write(&cluster, &[]);
    assert_eq!(lines(&written), 11);
    let told = String::from_utf8_lossy(&written.stderr);
    assert!(
        told.contains("1 pod keeps what somebody else wrote"),
        "{told}"
    );
    let last = order(&cluster).pop().expect("pods");
    assert_eq!((last.0, &*last.1), (7, "a3"));
}

#[test]
fn a_server_that_watches_writes_for_whoever_comes() {
    let cluster = cluster();
    let _watching = Watching::started(&cluster, &["--kubernetes-deletion-costs"]);
    let all_have = |pods: usize| (order(&cluster).len() == pods).then_some(());
    until("all pods have a value", || all_have(12));
    stays_even(&order(&cluster));
    cluster.put("pods", pod("b9", "b"));
    until("the new pod has a value", || all_have(13));
    assert_eq!(order(&cluster)[0].1, "b9");
    assert_eq!(cluster.applied(), 13);
}
