//! A cluster without a scheduler, whose pods run already.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::objects::{NAMESPACE, controller, node, node_name};

/// The number of nodes.
pub(crate) const NODES: usize = 10;
/// The number of pods: more than a page of a list.
pub(crate) const PODS: usize = 600;

/// Makes a cluster whose pods all run, without a scheduler.
pub(crate) async fn fill(api: &Api) {
    api.clear().await;
    let mut rng = Rng::with_seed(1);
    let nodes: Vec<Value> = (0..NODES).map(|index| node(&mut rng, index)).collect();
    api.create_all(nodes.into_iter()).await;
    api.create_all((0..PODS).map(running)).await;
    let metadata = json!({ "namespace": NAMESPACE, "name": "set" });
    let labels = json!({ "app": "web" });
    api.create(&controller("ReplicaSet", "apps/v1", metadata, &labels))
        .await;
}

fn running(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": NAMESPACE, "name": format!("pod-{index:03}"), "labels": { "app": "web" } },
        "spec": {
            "nodeName": node_name(index % NODES),
            "containers": [{ "name": "main", "image": "none" }],
        },
    })
}

/// Makes changes of every sort, different ones in each turn: deletes a few pods, adds one, has one
/// terminate, and cordons a node. Each turn leaves at most five pods fewer.
pub(crate) async fn change(api: &Api, turn: usize) {
    let pod = |index: usize| path("Pod", NAMESPACE, &format!("pod-{index:03}"));
    for index in 0..4 {
        api.delete(&pod(turn * 10 + index), 0).await;
    }
    api.delete(&pod(turn * 10 + 4), 30).await;
    api.create(&running(PODS + turn)).await;
    let cordoned = json!({ "spec": { "unschedulable": true } });
    api.patch(&path("Node", "", &node_name(turn)), &cordoned)
        .await;
}
