//! A small cluster with pods that are pending, as a file and behind an API server.

use serde_json::{Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::evenkeel::Workspace;

fn object(kind: &str, version: &str, name: &str, namespace: &str, more: Value) -> Value {
    let mut object = json!({
        "kind": kind, "apiVersion": version, "metadata": {"name": name, "namespace": namespace},
    });
    let fields = more.as_object().expect("a map").clone();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("metadata", Value::Object(more)) => {
                object["metadata"]
                    .as_object_mut()
                    .expect("a map")
                    .extend(more);
            }
            (key, value) => object[key] = value,
        }
    }
    object
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}])
}

/// The spec of web's pods: at most one more in a zone than in another, each revision
/// by itself.
fn web_spec() -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"],
    }]})
}

fn web_pod(name: &str, node: &str) -> Value {
    let mut spec = web_spec();
    let mut phase = "Pending";
    if !node.is_empty() {
        spec["nodeName"] = node.into();
        phase = "Running";
    }
    let metadata = json!({
        "labels": {"app": "web", "pod-template-hash": "new"},
        "ownerReferences": owner("ReplicaSet", "web-new"),
    });
    let more = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
    object("Pod", "v1", name, "shop", more)
}

fn replica_set(name: &str, hash: &str, labels: Value) -> Value {
    let mut labels = labels;
    labels["pod-template-hash"] = hash.into();
    let more = json!({
        "metadata": {"ownerReferences": owner("Deployment", "web")},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": web_spec()},
        },
    });
    object("ReplicaSet", "apps/v1", name, "shop", more)
}

/// Zone a has a web pod, zone b only a cordoned node. Two more web pods wait, and one of db in
/// another namespace.
pub(crate) fn objects() -> Vec<Value> {
    let node = |name: &str, zone: &str, cordoned: bool| {
        let more = json!({
            "metadata": {"labels": {"zone": zone, "kubernetes.io/hostname": name}},
            "spec": {"unschedulable": cordoned},
        });
        object("Node", "v1", name, "", more)
    };
    let pending = |name: &str, namespace: &str, more: Value| {
        let mut pod = json!({"spec": {}, "status": {"phase": "Pending"}});
        pod.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        object("Pod", "v1", name, namespace, pod)
    };
    let db = json!({"labels": {"app": "db"}, "ownerReferences": owner("StatefulSet", "db")});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": web_spec()});
    vec![
        node("a1", "a", false),
        node("b1", "b", true),
        web_pod("web-new-1", "a1"),
        web_pod("web-new-2", ""),
        web_pod("web-new-3", ""),
        pending("db-0", "default", json!({"metadata": db})),
        // The next two pods wait for no node.
        pending(
            "gone",
            "shop",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
        pending("done", "shop", json!({"status": {"phase": "Failed"}})),
        object(
            "Deployment",
            "apps/v1",
            "web",
            "shop",
            json!({"spec": {"replicas": 3, "template": template}}),
        ),
        replica_set("web-old", "old", json!({"app": "web", "old": "yes"})),
        replica_set("web-new", "new", json!({"app": "web"})),
        object(
            "Service",
            "v1",
            "web",
            "shop",
            json!({"spec": {"selector": {"app": "web"}}}),
        ),
    ]
}

/// A workspace with the objects as a file, and a kubeconfig of an API server that has them.
pub(crate) fn workspace() -> Workspace {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": objects()});
    let api = ApiServer::holding(objects());
    Workspace::new()
        .file("cluster.json", &list.to_string())
        .file("kube.yaml", &api.config("shop"))
}

pub(crate) const CLUSTER: &str = "--kubeconfig kube.yaml";
