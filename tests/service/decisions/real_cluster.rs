//! A real cluster's `kubectl get -o json`, loaded as it is: every decision
//! about a workload found in it is what the oracle recounts.

use std::fs;
use std::path::Path;
use support::model;

use evenkeel::proto::v1::{DefaultConstraints, Pod};
use serde::de::DeserializeOwned;
use serde_json::Value;
use support::agree::{self, Question};
use support::build::{HOSTNAME, ZONE, hard, soft};
use support::recount::{Cluster, labels, name};
use support::server::Server;

/// The cluster, from the data beside the project.
fn load() -> Cluster {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/kurl-cluster/cluster.json");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let items = list["items"].as_array().expect("a list");
    Cluster {
        nodes: of(items, "Node"),
        pods: of(items, "Pod"),
        services: of(items, "Service"),
        replica_sets: of(items, "ReplicaSet"),
        stateful_sets: of(items, "StatefulSet"),
        replication_controllers: of(items, "ReplicationController"),
        namespaces: of(items, "Namespace"),
        defaults: DefaultConstraints::default(),
        ..Cluster::default()
    }
}

fn of<T: DeserializeOwned>(items: &[Value], kind: &str) -> Vec<T> {
    let items = items.iter().filter(|item| item["kind"] == kind);
    let read = |item: &Value| serde_json::from_value(item.clone());
    items.map(|item| read(item).expect(kind)).collect()
}

/// The pod as it is, and with each of these constraints on pods of its
/// labels.
fn variants(pod: &Pod) -> Vec<Pod> {
    let own = labels(pod.metadata.as_ref());
    let own: Vec<(&str, &str)> = own.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let sets = [
        vec![hard(1, HOSTNAME, &own)],
        vec![hard(1, "kubernetes.io/os", &[]), soft(1, HOSTNAME, &own)],
        vec![hard(1, ZONE, &own), soft(2, "kubernetes.io/arch", &own)],
        vec![soft(1, HOSTNAME, &own), soft(1, ZONE, &own)],
    ];
    let constrained = sets.into_iter().map(|constraints| {
        let mut pod = pod.clone();
        pod.spec.get_or_insert_default().topology_spread_constraints = constraints;
        pod
    });
    constrained.chain([pod.clone()]).collect()
}

#[tokio::test]
#[ignore = "needs ../shared/data/kurl-cluster/cluster.json: what kubectl get -o json wrote of a real cluster"]
async fn workloads_of_a_real_cluster() {
    let mut cluster = load();
    assert_eq!((cluster.nodes.len(), cluster.pods.len()), (3, 58));
    let server = Server::start().await;
    let mut decisions = 0;
    for system in [false, true] {
        cluster.defaults.system = system;
        let changes = model::changes(&cluster);
        server
            .replace("kurl", changes, cluster.defaults.clone())
            .await;
        for pod in &cluster.pods {
            for incoming in variants(pod) {
                let about = Question {
                    cluster: &cluster,
                    pod: &incoming,
                    place: name(pod.metadata.as_ref()),
                };
                agree::decisions(&server, "kurl", &about).await;
                decisions += 1;
            }
        }
    }
    assert_eq!(decisions, 2 * 58 * 5);
}
