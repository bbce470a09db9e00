//! Pod templates on six nodes of 4 CPU, and the number of their pods that a cluster takes.

use serde_json::{Value, json};

/// The namespace whose LimitRange sets requests.
pub const LIMITED: &str = "limited";

/// The number of pods that are asked for: two on each node.
pub const WANTED: usize = 12;

/// A template, and the number of twelve pods that fit.
pub struct Case {
    /// The name of the constraint that decides.
    pub name: &'static str,
    /// The namespace of the pods.
    pub namespace: &'static str,
    /// The pod's spec.
    pub spec: Value,
    /// The number of pods of [`WANTED`] that find a node.
    pub placed: usize,
}

fn case(name: &'static str, spec: Value, placed: usize) -> Case {
    Case {
        name,
        namespace: "default",
        spec,
        placed,
    }
}

fn container(resources: Value) -> Value {
    json!({ "name": "main", "image": "none", "resources": resources })
}

fn one(resources: Value) -> Value {
    json!({ "containers": [container(resources)] })
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

/// The templates.
pub fn cases() -> Vec<Case> {
    let small = || container(json!({ "requests": { "cpu": "1" } }));
    let port = json!([{ "containerPort": 8080 }]);
    let mut on_host = small();
    on_host["ports"] = port;
    let on_host = |is: bool| json!({ "hostNetwork": is, "containers": [on_host] });
    let of_pod = |resources: Value| with(one(json!({})), "resources", resources);
    let init = |resources: Value| {
        let before = json!([{ "name": "before", "image": "none", "resources": resources }]);
        json!({ "containers": [small()], "initContainers": before })
    };
    let limited = |name, resources: Value, placed| Case {
        namespace: LIMITED,
        ..case(name, one(resources), placed)
    };
    let of_class = |class: &str, spec| with(spec, "runtimeClassName", class.into());
    vec![
        case("requests", one(json!({ "requests": { "cpu": "3" } })), 6),
        case("limits alone", one(json!({ "limits": { "cpu": "3" } })), 6),
        case(
            "limits of another resource",
            one(json!({ "limits": { "cpu": "3" }, "requests": { "memory": "1Mi" } })),
            6,
        ),
        case(
            "requests below limits",
            one(json!({ "limits": { "cpu": "3" }, "requests": { "cpu": "2" } })),
            12,
        ),
        case(
            "limits of an init container",
            init(json!({ "limits": { "cpu": "3" } })),
            6,
        ),
        case(
            "limits of the pod",
            of_pod(json!({ "limits": { "cpu": "3" } })),
            6,
        ),
        case(
            "limits of the pod beside requests of a container",
            with(
                json!({ "containers": [small()] }),
                "resources",
                json!({ "limits": { "cpu": "3" } }),
            ),
            12,
        ),
        case("a port in the node's network", on_host(true), 6),
        case("a port in the pod's network", on_host(false), 12),
        limited("a LimitRange", json!({}), 6),
        limited(
            "requests beside a LimitRange",
            json!({ "requests": { "cpu": "1" } }),
            12,
        ),
        case(
            "a RuntimeClass with overhead",
            of_class("heavy", json!({ "containers": [small()] })),
            6,
        ),
        case(
            "a RuntimeClass for some nodes",
            of_class("chosen", json!({ "containers": [small()] })),
            4,
        ),
    ]
}

/// The nodes. Two of them are for the RuntimeClass `chosen`, and take two pods each.
pub fn nodes() -> Vec<Value> {
    let node = |index: usize| {
        let name = format!("six-{index}");
        let mut labels = json!({ "kubernetes.io/hostname": name });
        let room = json!({ "cpu": "4", "memory": "8Gi", "pods": "12" });
        if index < 2 {
            labels["chosen"] = "yes".into();
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": labels },
            "status": {
                "allocatable": room, "capacity": room,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "Test", "message": "" }],
            },
        })
    };
    (0..6).map(node).collect()
}

/// The objects that admission reads.
pub fn admission() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1", "kind": "LimitRange",
            "metadata": { "name": "range", "namespace": LIMITED },
            "spec": { "limits": [{
                "type": "Container", "default": { "cpu": "4" }, "defaultRequest": { "cpu": "3" },
            }] },
        }),
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": { "name": "heavy" }, "handler": "heavy",
            "overhead": { "podFixed": { "cpu": "2" } },
        }),
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": { "name": "chosen" }, "handler": "chosen",
            "overhead": { "podFixed": { "cpu": "1" } },
            "scheduling": { "nodeSelector": { "chosen": "yes" } },
        }),
    ]
}

/// A Deployment of a case.
pub fn deployment(case: &Case) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "made", "namespace": case.namespace },
        "spec": {
            "replicas": WANTED,
            "selector": { "matchLabels": { "app": "made" } },
            "template": { "metadata": { "labels": { "app": "made" } }, "spec": case.spec },
        },
    })
}
