//! Random changes of a cluster.

use std::collections::HashSet;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, collection, path};
use crate::kubernetes::objects::{
    NAMESPACE, NODES, declaring, node, node_name, owning, relabelled, status, taint, topology, zone,
};

fn node_path(rng: &mut Rng) -> (usize, String) {
    let index = rng.usize(..NODES);
    (index, path("Node", "", &node_name(index)))
}

/// Cordons, taints, moves, resizes, deletes or recreates a node.
pub(crate) async fn to_a_node(api: &Api, rng: &mut Rng) {
    let (index, path) = node_path(rng);
    let name = node_name(index);
    let patch = match rng.usize(..8) {
        0 => json!({ "spec": { "unschedulable": true } }),
        1 | 2 => json!({ "spec": { "unschedulable": null } }),
        3 => json!({ "spec": { "taints": [taint(rng)] } }),
        4 => json!({ "spec": { "taints": null } }),
        5 => json!({ "metadata": { "labels": topology(&name, &zone(rng), Some("r1")) } }),
        6 => {
            let room = status(rng.u32(1..5) * 1000);
            let status = declaring(rng, room);
            let status = json!({ "status": status });
            api.patch(&format!("{path}/status"), &status).await;
            return;
        }
        _ => {
            if api.delete(&path, 0).await.is_none() {
                api.create(&node(rng, index)).await;
            }
            return;
        }
    };
    if api.patch(&path, &patch).await.is_none() {
        api.create(&node(rng, index)).await;
    }
}

/// Deletes, relabels, resizes or ends one of these pods, if it exists.
pub(crate) async fn to_a_pod(api: &Api, rng: &mut Rng, pods: &[String]) {
    let Some(name) = rng.choice(pods) else { return };
    let path = path("Pod", NAMESPACE, name);
    match rng.usize(..9) {
        6..=8 => resize(api, rng, &path).await,
        0 | 1 => drop(api.delete(&path, 0).await),
        // Without a kubelet the pod stays terminating.
        2 => drop(api.delete(&path, 30).await),
        3 | 4 => drop(api.patch(&path, &relabelled(rng)).await),
        _ => {
            let phase = if rng.bool() { "Succeeded" } else { "Failed" };
            let ended = json!({ "status": { "phase": phase } });
            api.patch(&format!("{path}/status"), &ended).await;
        }
    }
}

/// Resizes a running pod, and has its status say how far its node is with that.
async fn resize(api: &Api, rng: &mut Rng, path: &str) {
    let Some(pod) = api.get(path).await else {
        return;
    };
    let has_ended =
        ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or(""));
    let is_ending = !pod["metadata"]["deletionTimestamp"].is_null();
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() || has_ended || is_ending {
        return;
    }
    // Pods of nodes that are gone are not resized.
    if api
        .get(&crate::kubernetes::api::path("Node", "", node))
        .await
        .is_none()
    {
        return;
    }
    let mut containers = pod["spec"]["containers"].clone();
    // An API server refuses a resize to more than the node has, which is one CPU at least.
    let cpu = |rng: &mut Rng| format!("{}m", rng.u32(1..11) * 100);
    containers[0]["resources"]["requests"]["cpu"] = cpu(rng).into();
    let wanted = json!({ "spec": { "containers": containers } });
    api.patch(&format!("{path}/resize"), &wanted).await;
    let conditions = pod["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default();
    conditions.retain(|it| it["type"] != "PodResizePending");
    if rng.bool() {
        let reason = if rng.bool() { "Infeasible" } else { "Deferred" };
        conditions.push(json!({ "type": "PodResizePending", "status": "True", "reason": reason }));
    }
    let has = |rng: &mut Rng| json!({ "cpu": cpu(rng), "memory": "256Mi" });
    let mut entry = json!({
        "name": "main", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
        "allocatedResources": has(rng),
    });
    if rng.bool() {
        entry["resources"] = json!({ "requests": has(rng) });
    }
    let status = json!({ "status": { "conditions": conditions, "containerStatuses": [entry] } });
    api.patch(&format!("{path}/status"), &status).await;
}

/// Does what kubelets and other schedulers do in a while: removes terminating pods, binds nominated
/// pods or deletes them, and deletes some waiting pods.
pub(crate) async fn to_waiting_pods(api: &Api, rng: &mut Rng) {
    let pods = api.get(&collection("Pod", NAMESPACE)).await;
    let bound = pods.iter().flat_map(items);
    let bound = bound.filter_map(|pod| Some((pod["spec"]["nodeName"].as_str()?, pod)));
    let mut ports: HashSet<_> = bound.flat_map(|(node, pod)| ports_on(node, pod)).collect();
    for pod in pods.iter().flat_map(items) {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = path("Pod", NAMESPACE, name);
        let nominated = pod["status"]["nominatedNodeName"].as_str();
        let is_held = !pod["spec"]["schedulingGates"].is_null();
        let waits = pod["spec"]["nodeName"].is_null() && !is_held;
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if rng.bool() {
                api.delete(&path, 0).await;
            }
        } else if let (true, Some(node)) = (waits, nominated) {
            match rng.usize(..4) {
                // A node refuses a second pod with a host port. kube-scheduler would forget that the
                // port is taken as soon as one of the two is gone.
                0 if ports_on(node, pod).all(|port| ports.insert(port)) => {
                    bind(api, name, node).await;
                }
                1 => drop(api.delete(&path, 0).await),
                _ => {}
            }
        } else if waits && rng.bool() {
            api.delete(&path, 0).await;
        }
    }
}

/// The host ports of a pod, each with the node.
fn ports_on(node: &str, pod: &Value) -> impl Iterator<Item = (String, u64)> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|it| it["ports"].as_array().into_iter().flatten());
    let ports = ports.filter_map(|port| port["hostPort"].as_u64());
    ports.map(move |port| (node.to_owned(), port))
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

async fn bind(api: &Api, pod: &str, node: &str) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
        "target": { "kind": "Node", "name": node },
    });
    api.post(
        &format!("{}/binding", path("Pod", NAMESPACE, pod)),
        &binding,
    )
    .await;
}

/// Makes a Service or a controller, or deletes the one of that name.
pub(crate) async fn to_an_owner(api: &Api, rng: &mut Rng) {
    let object = owning(rng);
    let kind = object["kind"].as_str().expect("a kind");
    let name = object["metadata"]["name"].as_str().expect("a name");
    let path = path(kind, NAMESPACE, name);
    if api.delete(&path, 0).await.is_none() {
        api.create(&object).await;
    }
}
