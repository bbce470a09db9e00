//! Four situations, each asked about with every command and in every format: all tell the same.

use serde_json::{Value, json};

use crate::cli::evenkeel::Workspace;

const ZONE: &str = "topology.kubernetes.io/zone";

fn node(name: &str) -> Value {
    let labels = json!({ZONE: format!("zone-{}", &name[..1]), "kubernetes.io/hostname": name});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}})
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]}})
}

fn workload(kind: &str, name: &str, replicas: usize, app: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "prod"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": template(app)}})
}

/// A ready pod on a node, or one that waits.
fn pod(name: &str, owner: (&str, &str), app: &str, on: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template(app)["spec"],
        "metadata": {"name": name, "namespace": "prod", "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner.0, "name": owner.1,
                "uid": "u", "controller": true}]},
        "status": {"phase": "Pending"}});
    if owner.0 == "ReplicaSet" {
        pod["metadata"]["labels"]["pod-template-hash"] = json!("1");
    }
    if !on.is_empty() {
        pod["spec"]["nodeName"] = json!(on);
        pod["status"] = json!({"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]});
    }
    pod
}

fn workspace(objects: Vec<Value>, asked: &Value) -> Workspace {
    let mut items = objects;
    items.push(asked.clone());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Workspace::new()
        .file("cluster.json", &list.to_string())
        .file("asked.json", &asked.to_string())
}

/// The words of an output without what its format adds.
fn words(text: &str, format: &str) -> String {
    let text = match format {
        "json" => strings(&serde_json::from_str(text).unwrap_or_default()),
        "html" => without_markup(text),
        _ => text.replace(['"', '\''], ""),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All texts in a value.
fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text} "),
        Value::Array(items) => items.iter().map(strings).collect(),
        Value::Object(fields) => fields.values().map(strings).collect(),
        _ => String::new(),
    }
    .replace(['"', '\''], "")
}

fn without_markup(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&#39;", "")
        .replace("&quot;", "")
        .replace("&amp;", "&")
}

/// A question with its exit code, and the facts that every format tells, on standard output or as a
/// warning. Words that one format has in place of another's stand after a bar.
struct Told {
    line: &'static str,
    code: i32,
    formats: &'static [&'static str],
    facts: &'static [&'static str],
}

const DATA: &[&str] = &["text", "json", "yaml"];
const PAGE: &[&str] = &["text", "json", "yaml", "html"];
const FINDINGS: &[&str] = &["text", "json", "junit"];

fn tell_the_same(workspace: &Workspace, all: &[Told]) {
    for told in all {
        for format in told.formats {
            let source = "--load cluster.json";
            let text = match told.line.split(' ').next() {
                Some("lint") => format,
                _ if *format == "text" => "table",
                _ => format,
            };
            let line = format!("{} {source} -o {text}", told.line);
            let outcome = workspace.run(&line).expect(told.code);
            let told_here = words(&outcome.out, format) + " " + &words(&outcome.err, "text");
            for fact in told.facts {
                let is_told = fact.split('|').any(|fact| told_here.contains(fact.trim()));
                assert!(is_told, "{line}: {fact:?} is not in\n{told_here}");
            }
        }
    }
}

/// store-3 is to go where its disk is, and zone-a takes it; store-4's disk is there too.
#[test]
fn a_stateful_set_with_zonal_disks() {
    let mut set = workload("StatefulSet", "store", 5, "store");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let mut objects: Vec<Value> = ["a1", "a2", "b1", "b2", "c1", "c2"].map(node).to_vec();
    objects.push(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fast"}, "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    for (ordinal, zone) in [(0, "a"), (1, "b"), (2, "c"), (3, "a"), (4, "a")] {
        let claim = format!("data-store-{ordinal}");
        objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": format!("pv-{ordinal}")},
            "spec": {"storageClassName": "fast", "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "prod", "name": claim, "uid": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": ZONE, "operator": "In", "values": [format!("zone-{zone}")]}]}]}}}}));
        objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": "prod", "uid": claim,
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"storageClassName": "fast", "volumeName": format!("pv-{ordinal}"),
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"}}));
        if ordinal < 3 {
            let mut one = pod(
                &format!("store-{ordinal}"),
                ("StatefulSet", "store"),
                "store",
                &format!("{zone}1"),
            );
            one["spec"]["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
            objects.push(one);
        }
    }
    let workspace = workspace(objects, &set);
    tell_the_same(
        &workspace,
        &[
            Told {
                line: "explain sts/store -n prod",
                code: 0,
                formats: PAGE,
                facts: &[
                    "2 of 6 nodes satisfy what was checked (topology.kubernetes.io/zone=zone-a)",
                    "its claim data-store-3 is bound to the volume pv-3",
                ],
            },
            Told {
                line: "place sts/store -n prod",
                code: 1,
                formats: DATA,
                facts: &[
                    "store-3",
                    "store-4",
                    "node(s) didnt match PersistentVolumes node affinity",
                    "node(s) didnt match pod topology spread constraints",
                ],
            },
            Told {
                line: "scale-down sts/store -n prod --by 3",
                code: 0,
                formats: DATA,
                facts: &[
                    "those with the highest ordinals | HIGHEST_ORDINALS",
                    "store-2",
                ],
            },
            Told {
                line: "rebalance sts/store -n prod",
                code: 0,
                formats: &["text"],
                facts: &["no constraint is violated"],
            },
        ],
    );
}

/// Each pod of a DaemonSet counts its own node alone.
#[test]
fn a_daemon_set() {
    let set = workload("DaemonSet", "agent", 0, "agent");
    let mut objects: Vec<Value> = ["a1", "a2", "b1"].map(node).to_vec();
    for (name, on, tied) in [
        ("agent-1", "a1", "a1"),
        ("agent-2", "", "a2"),
        ("agent-3", "b1", "b1"),
    ] {
        let mut one = pod(name, ("DaemonSet", "agent"), "agent", on);
        one["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": [tied]}]}]}}});
        objects.push(one);
    }
    let workspace = workspace(objects, &set);
    tell_the_same(
        &workspace,
        &[
            Told {
                line: "explain -f asked.json",
                code: 0,
                formats: PAGE,
                facts: &[
                    "All 3 nodes satisfy what was checked",
                    "counts for each pod of the DaemonSet only the node that the pod is tied to",
                    "so it refuses no node and does nothing",
                ],
            },
            Told {
                line: "explain --pending",
                code: 0,
                formats: PAGE,
                facts: &["agent-2", "1 of 3 nodes satisfies what was checked"],
            },
            Told {
                line: "lint -f asked.json",
                code: 1,
                formats: FINDINGS,
                facts: &[
                    "a DaemonSet ties each of its pods to a node",
                    "the constraint does nothing",
                ],
            },
            Told {
                line: "place ds/agent -n prod",
                code: 2,
                formats: DATA,
                facts: &["a DaemonSet has no replicas to place"],
            },
            Told {
                line: "scale-down ds/agent -n prod --by 1",
                code: 2,
                formats: DATA,
                facts: &["must not be DaemonSet: it runs a pod on each node"],
            },
            Told {
                line: "rebalance",
                code: 0,
                formats: &["text"],
                facts: &["no constraint is violated"],
            },
            Told {
                line: "spread ds/agent -n prod",
                code: 0,
                formats: PAGE,
                facts: &[
                    "each pod counts the node that it is tied to",
                    "the constraint does nothing",
                ],
            },
        ],
    );
}

/// Two Deployments select the same pods, all of which are in one zone.
#[test]
fn two_workloads_with_one_selector() {
    let one = workload("Deployment", "web-a", 3, "web");
    let mut objects: Vec<Value> = ["a1", "b1", "c1"].map(node).to_vec();
    objects.push(workload("Deployment", "web-b", 2, "web"));
    for (name, owner) in [
        ("web-a-1-x", "web-a-1"),
        ("web-a-1-y", "web-a-1"),
        ("web-b-1-x", "web-b-1"),
        ("web-b-1-y", "web-b-1"),
    ] {
        objects.push(pod(name, ("ReplicaSet", owner), "web", "a1"));
    }
    let workspace = workspace(objects, &one);
    tell_the_same(
        &workspace,
        &[
            Told {
                line: "explain -f asked.json",
                code: 0,
                formats: PAGE,
                facts: &[
                    "2 of 3 nodes satisfy what was checked",
                    "counts pods of other workloads too: 2 pods of Deployment/web-b",
                ],
            },
            Told {
                line: "place -f asked.json",
                code: 0,
                formats: DATA,
                facts: &["b1"],
            },
            Told {
                line: "scale-down deploy/web-a -n prod --by 1",
                code: 1,
                formats: DATA,
                facts: &["web-a-1-x", "a1"],
            },
            Told {
                line: "rebalance --max-unavailable 2",
                code: 0,
                formats: PAGE,
                facts: &["web-a-1-x", "web-b-1-x | web-a-1-y", "b1", "c1"],
            },
        ],
    );
}

/// zone-c is drained: its node is cordoned with its taint, and its pod waits.
#[test]
fn a_drained_zone() {
    let deployment = workload("Deployment", "web", 3, "web");
    let mut objects: Vec<Value> = ["a1", "b1", "c1"].map(node).to_vec();
    objects[2]["spec"] = json!({"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]});
    for (name, on) in [("web-1-x", "a1"), ("web-1-y", "b1"), ("web-1-z", "")] {
        objects.push(pod(name, ("ReplicaSet", "web-1"), "web", on));
    }
    let workspace = workspace(objects, &deployment);
    const SUMMARY: &[&str] = &[
        "None of 3 nodes can take the pod",
        "2 nodes would exceed maxSkew 1 of topology.kubernetes.io/zone (zone-c has no pod)",
        "1 node is cordoned",
        "uncordon c1",
        "nodeTaintsPolicy: Honor on constraint 0 (topology.kubernetes.io/zone), which lets it onto 2 nodes",
    ];
    tell_the_same(
        &workspace,
        &[
            Told {
                line: "explain -f asked.json",
                code: 1,
                formats: PAGE,
                facts: SUMMARY,
            },
            Told {
                line: "explain --pending",
                code: 1,
                formats: PAGE,
                facts: SUMMARY,
            },
            Told {
                line: "lint -f asked.json",
                code: 1,
                formats: FINDINGS,
                facts: SUMMARY,
            },
            Told {
                line: "place deploy/web -n prod",
                code: 1,
                formats: DATA,
                facts: &[
                    "1 of the 3 waits for a node: web-1-z",
                    "node(s) didnt match pod topology spread constraints",
                    "node(s) were unschedulable",
                ],
            },
            Told {
                line: "scale-down deploy/web -n prod --by 1",
                code: 0,
                formats: DATA,
                facts: &["web-1-z"],
            },
            Told {
                line: "report",
                code: 0,
                formats: PAGE,
                facts: &["Deployment/prod/web", "node(s) were unschedulable"],
            },
        ],
    );
}

/// A zone whose nodes are lost is told alike by all who name it.
#[test]
fn a_lost_zone() {
    let mut objects: Vec<Value> = ["a1", "b1", "c1"].map(node).to_vec();
    objects[2]["spec"] = json!({"taints": [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute",
            "timeAdded": "2026-11-29T08:00:00Z"}]});
    for (name, on) in [("web-1-x", "a1"), ("web-1-y", "a1"), ("web-1-z", "b1")] {
        objects.push(pod(name, ("ReplicaSet", "web-1"), "web", on));
    }
    let workspace = workspace(objects, &workload("Deployment", "web", 4, "web"));
    const LOST: &[&str] = &["unreachable since 2026-11-29T08:00:00Z"];
    let told = |line, code, formats| Told {
        line,
        code,
        formats,
        facts: LOST,
    };
    tell_the_same(
        &workspace,
        &[
            told("explain -f asked.json", 1, PAGE),
            told("lint -f asked.json", 1, FINDINGS),
            told("rebalance", 1, PAGE),
        ],
    );
}
