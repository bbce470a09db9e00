//! Pod templates: each is decided about as the pod that a cluster makes of it.
//! `tests/external/kubernetes/templates.rs` counts the pods of each template that a real cluster takes.

use serde_json::{Value, json};

use crate::cli::evenkeel::Workspace;
use crate::cli::templates::{Case, admission, cases, deployment, nodes};

fn list(items: Vec<Value>) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn placed(workspace: &Workspace, line: &str) -> usize {
    workspace.run(line).out.lines().count()
}

#[test]
fn a_template_takes_the_room_that_its_pods_take() {
    let cluster = || nodes().into_iter().chain(admission());
    for case in cases() {
        let Case {
            name,
            placed: expected,
            ..
        } = case;
        let workload = deployment(&case);
        let all = cluster().chain([workload.clone()]).collect();
        let workspace = Workspace::new()
            .file("cluster.json", &list(cluster().collect()))
            .file("nodes.json", &list(nodes()))
            .file("all.json", &list(all))
            .file("workload.json", &workload.to_string())
            .file(
                "beside.json",
                &list(admission().into_iter().chain([workload]).collect()),
            );
        for line in [
            "place -f workload.json --load cluster.json -o name",
            "place -f beside.json --load nodes.json -o name",
            &format!(
                "place deploy/{}/made --load all.json -o name",
                case.namespace
            ),
        ] {
            assert_eq!(placed(&workspace, line), expected, "{name}: {line}");
        }
    }
}

const REQUESTS: &str = "spec.containers.resources.requests (LimitRange)";

/// An answer names the additions to a pod that cannot be known.
#[test]
fn a_runtime_class_that_is_not_there_is_named() {
    let mut all = cases();
    let case = all.pop().expect("one is of a RuntimeClass");
    let workspace = Workspace::new()
        .file("nodes.json", &list(nodes()))
        .file("workload.json", &deployment(&case).to_string());
    let outcome = workspace.expect(0, "filter -f workload.json --load nodes.json");
    outcome.complains("RuntimeClass chosen is not there: what it adds to the pod is not counted");
    outcome.says(&format!(
        "nodes, but {REQUESTS} and spec.runtimeClassName were not checked"
    ));
    // The answer in JSON says so too.
    let outcome = workspace.run("filter -f workload.json --load nodes.json -o json");
    assert_eq!(
        outcome.json()["unchecked"],
        json!([REQUESTS, "spec.runtimeClassName"])
    );
}

/// Files without any LimitRange do not tell what the cluster's LimitRanges add to a pod.
#[test]
fn requests_that_a_limit_range_may_add_are_named() {
    let whole = json!({ "requests": { "cpu": "1", "memory": "1Mi" } });
    let limited = json!({ "limits": { "cpu": "1", "memory": "1Mi" } });
    for (resources, files, unchecked) in [
        (json!({}), nodes(), json!([REQUESTS])),
        (
            json!({ "requests": { "cpu": "1" } }),
            nodes(),
            json!([REQUESTS]),
        ),
        (whole, nodes(), Value::Null),
        (limited, nodes(), Value::Null),
        (
            json!({}),
            nodes().into_iter().chain(admission()).collect(),
            Value::Null,
        ),
    ] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "new" },
            "spec": { "containers": [{ "name": "main", "resources": resources }] },
        });
        let workspace = Workspace::new()
            .file("cluster.json", &list(files))
            .file("pod.json", &pod.to_string());
        let outcome = workspace.run("filter -f pod.json --load cluster.json -o json");
        assert_eq!(outcome.json()["unchecked"], unchecked, "{resources}");
        assert_eq!(outcome.err, "");
    }
}

/// Pods in files also request what an API server sets by default.
#[test]
fn pods_of_files_request_what_they_are_limited_to() {
    let pod = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("there-{index}") },
            "spec": {
                "nodeName": format!("six-{index}"),
                "containers": [{ "name": "main", "resources": { "limits": { "cpu": "2" } } }],
            },
        })
    };
    let case = cases().swap_remove(0);
    let workspace = Workspace::new()
        .file(
            "cluster.json",
            &list(nodes().into_iter().chain((0..4).map(pod)).collect()),
        )
        .file("workload.json", &deployment(&case).to_string());
    assert_eq!(
        placed(
            &workspace,
            "place -f workload.json --load cluster.json -o name"
        ),
        2
    );
}

/// The pod that a workload's own controller makes of its template.
#[test]
fn controllers_complete_their_pods() {
    let taint = |key: &str, effect: &str| json!([{ "key": key, "effect": effect }]);
    let node = |name: &str, taints: Value| {
        let mut node = nodes().swap_remove(0);
        node["metadata"]["name"] = name.into();
        node["spec"]["taints"] = taints;
        node
    };
    let cluster = list(vec![
        node("ready", json!([])),
        node(
            "full-disk",
            taint("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ),
        node(
            "cordoned",
            taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        ),
        node(
            "leaving",
            taint("node.kubernetes.io/not-ready", "NoExecute"),
        ),
        node(
            "offline",
            taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
        ),
    ]);
    let workload = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "made" },
            "spec": { "template": { "spec": spec } },
        })
    };
    let on_host = json!({ "hostNetwork": true });
    for (workload, nodes) in [
        (workload("Deployment", json!({})), vec!["leaving", "ready"]),
        (
            workload("DaemonSet", json!({})),
            vec!["cordoned", "full-disk", "leaving", "ready"],
        ),
        (
            workload("DaemonSet", on_host),
            vec!["cordoned", "full-disk", "leaving", "offline", "ready"],
        ),
    ] {
        let workspace = Workspace::new()
            .file("cluster.json", &cluster)
            .file("workload.json", &workload.to_string());
        let outcome = workspace.run("filter -f workload.json --load cluster.json -o name");
        let mut found: Vec<&str> = outcome.out.lines().collect();
        found.sort_unstable();
        assert_eq!(found, nodes, "{workload}");
    }
    let mut set = workload("StatefulSet", json!({}));
    set["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
    let workspace = Workspace::new()
        .file("cluster.json", &cluster)
        .file("workload.json", &set.to_string());
    let outcome = workspace.expect(0, "filter -f workload.json --load cluster.json -o json");
    assert_eq!(outcome.json()["unchecked"], json!(["spec.volumes"]));
}
