//! Workloads that are not in the snapshot yet: a question about one adds it, so default constraints
//! find its selector. A new revision of a Deployment counts by itself.

use serde_json::{Value, json};

use crate::cli::evenkeel::Workspace;

/// Zones a and b with two nodes each. Two pods of an earlier revision are in zone a.
fn cluster(more: Vec<Value>) -> String {
    let node = |name: &str| {
        json!({ "kind": "Node", "metadata": { "name": name, "labels": {
            "topology.kubernetes.io/zone": &name[..1], "kubernetes.io/hostname": name,
        } } })
    };
    let mut items: Vec<Value> = ["a1", "a2", "b1", "b2"].into_iter().map(node).collect();
    items.extend(more);
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn labels(hash: &str) -> Value {
    json!({ "app": "web", "pod-template-hash": hash })
}

fn pod(name: &str, owner: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": labels("old"),
            "ownerReferences": [{ "kind": "ReplicaSet", "name": owner, "controller": true }],
        },
        "spec": { "nodeName": node },
    })
}

fn earlier_pods() -> Vec<Value> {
    vec![
        pod("web-old-1", "web-old", "a1"),
        pod("web-old-2", "web-old", "a2"),
    ]
}

fn replica_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": "web-old",
            "ownerReferences": [{ "kind": "Deployment", "name": "web", "controller": true }],
        },
        "spec": {
            "selector": { "matchLabels": labels("old") },
            "template": { "metadata": { "labels": labels("old") }, "spec": { "old": true } },
        },
    })
}

fn workload(kind: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web" },
        "spec": {
            "replicas": 4,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": spec },
        },
    })
}

/// Returns how many pods of the zones a and b the constraint on zones counted.
fn counted(answer: &Value) -> Vec<i64> {
    let constraints = answer["constraints"].as_array().into_iter().flatten();
    let mut of_zones = constraints
        .filter(|it| it["constraint"]["topologyKey"] == "topology.kubernetes.io/zone")
        .flat_map(|it| it["domains"].as_array().into_iter().flatten())
        .map(|domain| {
            let pods = domain["matchingPods"].as_str().unwrap_or("0");
            let pods: i64 = pods.parse().expect("a number");
            (domain["value"].as_str().expect("a value"), pods)
        })
        .collect::<Vec<_>>();
    of_zones.sort_unstable();
    of_zones.into_iter().map(|(_, pods)| pods).collect()
}

#[test]
fn default_constraints_find_the_selector_of_a_new_workload() {
    let by_revision = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["pod-template-hash"],
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] });
    let none = || json!({});
    let cases = [
        // A StatefulSet selects all pods with its labels.
        ("StatefulSet", none(), earlier_pods(), vec![2, 0]),
        ("StatefulSet", none(), vec![], vec![0, 0]),
        // A Deployment that has no pods gets a ReplicaSet that selects nothing yet.
        ("Deployment", none(), vec![], vec![0, 0]),
        (
            "Deployment",
            none(),
            vec![pod("other-1", "other-old", "a1")],
            vec![0, 0],
        ),
        // A Deployment that has pods may still have their template, so its selector is unknown.
        ("Deployment", none(), earlier_pods(), vec![]),
        (
            "Deployment",
            by_revision.clone(),
            earlier_pods(),
            vec![2, 0],
        ),
        (
            "Deployment",
            by_revision,
            vec![pod("other-1", "other-old", "a1")],
            vec![0, 0],
        ),
        ("Job", none(), vec![], vec![]),
    ];
    for (kind, spec, pods, expected) in cases {
        let workload = workload(kind, spec);
        let workspace = Workspace::new()
            .file("cluster.json", &cluster(pods))
            .file("workload.json", &workload.to_string());
        let line = "score -f workload.json --load cluster.json -o json";
        let answer = workspace.expect(0, line).json();
        assert_eq!(counted(&answer), expected, "{workload} in {answer}");
    }
}

/// All ReplicaSets of a cluster are known, so a template that none of them has is a new revision.
#[test]
fn a_changed_template_is_a_revision_of_its_own() {
    let mut objects = earlier_pods();
    objects.extend([
        replica_set(),
        workload("Deployment", json!({ "old": false })),
    ]);
    let workspace = Workspace::new().file("cluster.json", &cluster(objects));
    let answer = workspace
        .expect(0, "score deploy/web --load cluster.json -o json")
        .json();
    assert_eq!(counted(&answer), [0, 0], "{answer}");

    let mut objects = earlier_pods();
    objects.extend([
        replica_set(),
        workload("Deployment", json!({ "old": true })),
    ]);
    let workspace = Workspace::new().file("cluster.json", &cluster(objects));
    let answer = workspace
        .expect(0, "score deploy/web --load cluster.json -o json")
        .json();
    assert_eq!(counted(&answer), [2, 0], "{answer}");
}

/// Services in the file of a workload select its pods, in any namespace that a question is about.
#[test]
fn a_service_of_the_same_file_counts() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" } },
    });
    let both = json!({ "apiVersion": "v1", "kind": "List", "items": [
        service, workload("DaemonSet", json!({})),
    ] });
    let mut pods = earlier_pods();
    for pod in &mut pods {
        pod["metadata"]["namespace"] = "shop".into();
    }
    let workspace = Workspace::new()
        .file("cluster.json", &cluster(pods))
        .file("workload.json", &both.to_string());
    for (flags, expected) in [("", [0, 0]), ("-n shop", [2, 0])] {
        let line = format!("score -f workload.json {flags} --load cluster.json -o json");
        let answer = workspace.expect(0, &line).json();
        assert_eq!(counted(&answer), expected, "{flags}: {answer}");
    }
}

/// `--replicas` is the total, as in `kubectl scale`.
#[test]
fn replicas_that_are_there_count() {
    let mut objects = earlier_pods();
    objects.extend([
        replica_set(),
        workload("Deployment", json!({ "old": true })),
    ]);
    let workspace = Workspace::new()
        .file("cluster.json", &cluster(objects))
        .file(
            "workload.json",
            &workload("Deployment", json!({})).to_string(),
        );
    for (flags, line) in [
        ("", "placed: 2 of 2 more, 4 in all"),
        ("--replicas 3", "placed: 1 of 1 more, 3 in all"),
        ("--replicas 2", "placed: 0 of 0 more, 2 in all"),
        ("--replicas 1", "placed: 0 of 0 more, 2 in all"),
        ("--add 3", "placed: 3 of 3 more, 5 in all"),
    ] {
        for pod in ["deploy/web", "-f workload.json"] {
            let outcome = workspace.expect(0, &format!("place {pod} {flags} --load cluster.json"));
            outcome.says(line);
        }
    }
    let outcome = workspace.expect(2, "place deploy/web --add 0 --load cluster.json");
    outcome.complains("--add");
    let outcome = workspace.expect(
        2,
        "place deploy/web --add 1 --replicas 3 --load cluster.json",
    );
    outcome.complains("--replicas");
}
