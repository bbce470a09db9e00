//! Random objects of a cluster of three zones, as JSON.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::kubernetes::storage;

/// The number of nodes of the cluster.
pub(crate) const NODES: usize = 60;

/// The namespace of the pods.
pub(crate) const NAMESPACE: &str = "default";

/// The scheduling gate that pods of controllers have.
pub(crate) const GATE: &str = "example.com/asked";

/// The label of a pod with its own name.
pub(crate) const OWN_NAME: &str = "name";

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const RACK: &str = "example.com/rack";

/// Classes by name, with their priorities. Pods without one have priority 0.
const PRIORITIES: [(&str, i32, &str); 3] = [
    ("low", -10, "PreemptLowerPriority"),
    ("high", 1000, "PreemptLowerPriority"),
    ("patient", 1000, "Never"),
];

pub(crate) fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

pub(crate) fn one_in(rng: &mut Rng, chance: usize) -> bool {
    rng.usize(..chance) == 0
}

pub(crate) fn node_name(index: usize) -> String {
    format!("node-{index:02}")
}

/// A zone's name.
pub(crate) fn zone(rng: &mut Rng) -> String {
    pick(rng, &["a", "b", "c"]).to_owned()
}

/// The labels of a node that are topology keys.
pub(crate) fn topology(name: &str, zone: &str, rack: Option<&str>) -> Value {
    let mut labels = json!({ ZONE: zone, HOSTNAME: name });
    if let Some(rack) = rack {
        labels[RACK] = rack.into();
    }
    labels
}

/// A node; every tenth or so has no rack, or is tainted.
pub(crate) fn node(rng: &mut Rng, index: usize) -> Value {
    let name = node_name(index);
    let zone = ["a", "b", "c"][index % 3];
    let rack = (!one_in(rng, 10)).then(|| pick(rng, &["r1", "r2", "r3", "r4"]));
    let taints = match one_in(rng, 10) {
        true => json!([taint(rng)]),
        false => json!([]),
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": topology(&name, zone, rack) },
        "spec": { "taints": taints },
        "status": declaring(rng, status(3000)),
    })
}

/// A node's status, in most cases with the feature that some pods need.
pub(crate) fn declaring(rng: &mut Rng, mut status: Value) -> Value {
    if !one_in(rng, 4) {
        status["declaredFeatures"] = json!(["RestartAllContainersOnContainerExits"]);
    }
    status
}

/// A node's status with this much CPU, in thousandths.
pub(crate) fn status(millicpu: u32) -> Value {
    let room = json!({ "cpu": format!("{millicpu}m"), "memory": "8Gi", "pods": "12" });
    json!({
        "allocatable": room, "capacity": room,
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Test", "message": "" }],
    })
}

pub(crate) fn taint(rng: &mut Rng) -> Value {
    let effect = pick(rng, &["NoSchedule", "NoExecute", "PreferNoSchedule"]);
    json!({ "key": "dedicated", "value": pick(rng, &["x", "y"]), "effect": effect })
}

fn pod_labels(rng: &mut Rng) -> Value {
    json!({
        "app": pick(rng, &["a", "b", "c"]),
        "tier": pick(rng, &["x", "y"]),
        "version": pick(rng, &["1", "2"]),
    })
}

/// A patch that gives a pod other labels.
pub(crate) fn relabelled(rng: &mut Rng) -> Value {
    json!({ "metadata": { "labels": pod_labels(rng) } })
}

fn selector(rng: &mut Rng) -> Value {
    match rng.usize(..5) {
        0 => {
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["a", pick(rng, &["b", "c"])] }] })
        }
        1 => json!({ "matchExpressions": [{ "key": "tier", "operator": "Exists" }] }),
        2 => json!({ "matchLabels": { "tier": pick(rng, &["x", "y"]) } }),
        _ => json!({ "matchLabels": { "app": pick(rng, &["a", "b", "c"]) } }),
    }
}

fn constraint(rng: &mut Rng, key: &str, action: &str) -> Value {
    let mut constraint = json!({
        "maxSkew": rng.i32(1..4),
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": selector(rng),
    });
    if action == "DoNotSchedule" && one_in(rng, 4) {
        constraint["minDomains"] = rng.i32(1..5).into();
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if one_in(rng, 3) {
            constraint[policy] = pick(rng, &["Honor", "Ignore"]).into();
        }
    }
    if one_in(rng, 4) {
        constraint["matchLabelKeys"] = json!(["version"]);
    }
    constraint
}

/// At most one constraint per key and action, as is valid; often none, so that
/// the defaults are in force.
fn constraints(rng: &mut Rng) -> Vec<Value> {
    let mut made = Vec::new();
    if one_in(rng, 4) {
        return made;
    }
    for key in [ZONE, HOSTNAME, RACK] {
        for action in ["DoNotSchedule", "ScheduleAnyway"] {
            let likely = if key == ZONE { 2 } else { 4 };
            if one_in(rng, likely) {
                made.push(constraint(rng, key, action));
            }
        }
    }
    made
}

/// A pod that nobody has placed yet.
pub(crate) fn pod(rng: &mut Rng, name: &str) -> Value {
    let container = json!({
        "name": "main", "image": "none",
        "resources": { "requests": { "cpu": format!("{}m", rng.u32(1..8) * 200), "memory": "256Mi" } },
    });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": pod_labels(rng) },
        "spec": { "containers": [container], "topologySpreadConstraints": constraints(rng) },
    });
    if one_in(rng, 3) {
        pod["metadata"]["ownerReferences"] = json!([owner(rng)]);
    }
    let spec = &mut pod["spec"];
    if one_in(rng, 3) {
        let toleration = match rng.bool() {
            true => json!({ "key": "dedicated", "operator": "Exists" }),
            false => {
                json!({ "key": "dedicated", "value": pick(rng, &["x", "y"]), "effect": "NoSchedule" })
            }
        };
        spec["tolerations"] = json!([toleration]);
    }
    if one_in(rng, 8) {
        spec["nodeSelector"] = json!({ RACK: pick(rng, &["r1", "r2"]) });
    } else if one_in(rng, 8) {
        spec["affinity"] = affinity(rng);
    } else if one_in(rng, 4) {
        spec["affinity"] = to_pods(rng);
    }
    if one_in(rng, 12) {
        // Nodes have to declare the feature that these rules need.
        spec["containers"][0]["restartPolicy"] = "Never".into();
        spec["containers"][0]["restartPolicyRules"] = json!([{
            "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] },
        }]);
    }
    if one_in(rng, 10) {
        let port = rng.u32(8000..8003);
        spec["containers"][0]["ports"] = json!([{ "containerPort": port, "hostPort": port }]);
    }
    if one_in(rng, 6) {
        spec["volumes"] = storage::volumes(rng).into();
    }
    if one_in(rng, 2) {
        let class = rng.usize(..PRIORITIES.len());
        spec["priorityClassName"] = PRIORITIES[class].0.into();
    }
    if one_in(rng, 3) {
        // Without a grace period, victims of preemption vanish at once. Others stay for a while.
        spec["terminationGracePeriodSeconds"] = 0.into();
    }
    pod
}

/// Required affinity or anti-affinity to other pods.
fn to_pods(rng: &mut Rng) -> Value {
    let term = |rng: &mut Rng| {
        let mut term = json!({
            "topologyKey": pick(rng, &[ZONE, HOSTNAME, HOSTNAME, RACK]),
            "labelSelector": selector(rng),
        });
        match rng.usize(..6) {
            0 => term["namespaceSelector"] = json!({}),
            1 => term["namespaces"] = json!([NAMESPACE, "marker"]),
            2 => {
                let other = json!({ "key": "other", "operator": "DoesNotExist" });
                term["namespaceSelector"] = json!({ "matchExpressions": [other] });
            }
            3 => term["matchLabelKeys"] = json!(["version"]),
            _ => {}
        }
        term
    };
    let kind = pick(rng, &["podAffinity", "podAntiAffinity", "podAntiAffinity"]);
    let terms: Vec<Value> = (0..rng.usize(1..3)).map(|_| term(rng)).collect();
    json!({ kind: { "requiredDuringSchedulingIgnoredDuringExecution": terms } })
}

/// A workload whose controller makes pods. The pods wait for a gate, so that the server can be
/// asked about them before they are scheduled.
pub(crate) fn workload(rng: &mut Rng, name: &str) -> Value {
    let pod = pod(rng, name);
    let (mut metadata, mut spec) = (pod["metadata"].clone(), pod["spec"].clone());
    let own = json!({ "workload": name });
    metadata["labels"]["workload"] = name.into();
    let metadata = json!({ "labels": metadata["labels"] });
    spec["schedulingGates"] = json!([{ "name": GATE }]);
    let (kind, version) = *rng
        .choice(&[
            ("DaemonSet", "apps/v1"),
            ("StatefulSet", "apps/v1"),
            ("Job", "batch/v1"),
        ])
        .expect("there are some");
    let mut object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "template": { "metadata": metadata, "spec": spec } },
    });
    let whole = &mut object["spec"];
    if kind == "Job" {
        whole["template"]["spec"]["restartPolicy"] = "Never".into();
        whole["parallelism"] = 3.into();
        whole["completions"] = 3.into();
        return object;
    }
    whole["selector"] = json!({ "matchLabels": own });
    if kind == "StatefulSet" {
        whole["replicas"] = 3.into();
        whole["serviceName"] = "none".into();
        whole["podManagementPolicy"] = "Parallel".into();
        if one_in(rng, 2) {
            let mut claim = storage::claim(rng, "data");
            claim["metadata"] = json!({ "name": "data" });
            whole["volumeClaimTemplates"] = json!([claim]);
        }
    }
    object
}

fn affinity(rng: &mut Rng) -> Value {
    let operator = pick(rng, &["In", "NotIn"]);
    let zones = ["a", pick(rng, &["b", "c"])];
    let expression = json!({ "key": ZONE, "operator": operator, "values": zones });
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
    }}})
}

const OWNERS: [(&str, &str); 3] = [
    ("ReplicaSet", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("ReplicationController", "v1"),
];

fn owner(rng: &mut Rng) -> Value {
    let (kind, version) = OWNERS[rng.usize(..OWNERS.len())];
    let name = pick(rng, &["own-0", "own-1"]);
    json!({ "apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": true })
}

/// A Service or, every other time, a controller that may own pods, under one of two names.
pub(crate) fn owning(rng: &mut Rng) -> Value {
    let metadata = json!({ "namespace": NAMESPACE, "name": pick(rng, &["own-0", "own-1"]) });
    let labels = match rng.bool() {
        true => json!({ "app": pick(rng, &["a", "b", "c"]) }),
        false => json!({ "tier": pick(rng, &["x", "y"]) }),
    };
    if rng.bool() {
        let spec = json!({ "selector": labels, "ports": [{ "port": 80 }] });
        return json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec });
    }
    let (kind, version) = OWNERS[rng.usize(..OWNERS.len())];
    controller(kind, version, metadata, &labels)
}

/// A controller of this kind that selects these labels, with no pods wanted.
pub(crate) fn controller(kind: &str, version: &str, metadata: Value, labels: &Value) -> Value {
    let selector = match kind {
        "ReplicationController" => labels.clone(),
        _ => json!({ "matchLabels": labels }),
    };
    let template = json!({
        "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    let mut spec = Map::new();
    spec.insert("replicas".into(), 0.into());
    spec.insert("selector".into(), selector);
    spec.insert("template".into(), template);
    if kind == "StatefulSet" {
        spec.insert("serviceName".into(), "none".into());
    }
    json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec })
}

/// The priority classes that pods name.
pub(crate) fn priority_classes() -> impl Iterator<Item = Value> {
    PRIORITIES.iter().map(|(name, value, policy)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": name }, "value": value, "preemptionPolicy": policy,
        })
    })
}
