//! The pod that is decided about for a template has the same deciding fields as the pod that
//! kube-apiserver and the controllers of kube-controller-manager make of the template.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel::matching::RequestsByVersion;
use evenkeel::proto::v1::{OwnerReference, Pod};
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::control_plane::turn;
use crate::kubernetes::process::{self, until};
use crate::kubernetes::shadow::read;
use crate::kubernetes::template_cases::{self, LIMITED, admission, cases, nodes};

/// The longest time that controllers may take. The controller of CronJobs starts jobs at each full
/// minute.
const PATIENCE: Duration = Duration::from_secs(150);

/// The controllers whose pods are compared.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,\
    replicationcontroller-controller,daemonset-controller,statefulset-controller,job-controller,\
    cronjob-controller";

/// Kinds of owners that default constraints look at.
const OWNERS: [&str; 3] = ["ReplicaSet", "StatefulSet", "ReplicationController"];

/// Labels that only one pod has, that name a revision which no file names, or that hold a UID.
const UNKNOWN_LABELS: [&str; 6] = [
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
    "controller-revision-hash",
    "pod-template-generation",
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: deploy/tools.sh install_control_plane"]
async fn the_pods_that_come_are_those_that_were_decided_about() {
    let mut plane = turn().await;
    let api = Api::connect(&plane.kubeconfig()).await;
    api.clear().await;
    let around = around();
    for object in nodes().iter().chain(&around) {
        make_anew(&api, object).await;
    }
    plane.command(&format!(
        "start kube-controller-manager --controllers={CONTROLLERS}"
    ));
    let workloads = workloads();
    for workload in &workloads {
        api.create(workload).await;
    }
    let directory = plane.directory().to_owned();
    let decided = decided(&directory, &workloads, &around);
    assert_eq!(decided.len(), workloads.len());
    for (workload, decided) in workloads.iter().zip(decided) {
        let came = came(&api, workload).await;
        let name = &workload["metadata"]["name"];
        assert_eq!(
            what_decides(decided),
            what_decides(came),
            "{} {name}: decided about, and came",
            workload["kind"]
        );
    }
    plane.command("kill kube-controller-manager");
    api.clear().await;
}

/// The objects that admission reads.
fn around() -> Vec<Value> {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": LIMITED } });
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": "ranked" }, "value": 70,
    });
    [namespace, class].into_iter().chain(admission()).collect()
}

async fn make_anew(api: &Api, object: &Value) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().expect("a kind");
    let path = path(kind, text("namespace"), text("name"));
    if kind != "Namespace" {
        api.delete(&path, 0).await;
    }
    if api.get(&path).await.is_none() {
        api.create(object).await;
    }
}

/// A Deployment of each template, and a workload of each kind with and without the host's network.
fn workloads() -> Vec<Value> {
    let mut all = Vec::new();
    for (index, case) in cases().into_iter().enumerate() {
        let mut workload = template_cases::deployment(&case);
        named(&mut workload, &format!("case-{index}"));
        workload["spec"]["replicas"] = 1.into();
        all.push(workload);
    }
    for (kind, version) in [
        ("Deployment", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("DaemonSet", "apps/v1"),
        ("ReplicationController", "v1"),
        ("Job", "batch/v1"),
        ("CronJob", "batch/v1"),
    ] {
        for on_host in [false, true] {
            let mut workload = of_kind(kind, version, template(on_host));
            named(&mut workload, &format!("{}-{on_host}", kind.to_lowercase()));
            all.push(workload);
        }
    }
    all
}

/// Gives a workload and its pods a name, by which it selects them.
fn named(workload: &mut Value, name: &str) {
    workload["metadata"]["name"] = name.into();
    let selects = json!({ "app": name });
    let spec = &mut workload["spec"];
    if let Some(template) = spec.pointer_mut("/jobTemplate/spec/template") {
        template["metadata"]["labels"] = selects;
        return;
    }
    spec["template"]["metadata"]["labels"] = selects.clone();
    if !spec["selector"]["matchLabels"].is_null() {
        spec["selector"]["matchLabels"] = selects;
    } else if !spec["selector"].is_null() {
        spec["selector"] = selects;
    }
}

/// A template with every sort of field that decides.
fn template(on_host: bool) -> Value {
    let pods =
        json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "db" } } });
    json!({ "metadata": { "labels": {} }, "spec": {
        "hostNetwork": on_host,
        "runtimeClassName": "heavy",
        "priorityClassName": "ranked",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
        "affinity": { "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [pods],
        } },
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { "app": "web" } },
        }],
        "initContainers": [{
            "name": "before", "image": "none", "restartPolicy": "Always",
            "resources": { "limits": { "cpu": "200m" } },
        }],
        "containers": [
            { "name": "main", "image": "none", "ports": [{ "containerPort": 8080 }],
              "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } },
            { "name": "beside", "image": "none",
              "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "2" } } },
        ],
        "volumes": [{ "name": "shared", "persistentVolumeClaim": { "claimName": "shared" } }],
    } })
}

fn of_kind(kind: &str, version: &str, mut template: Value) -> Value {
    let labels = json!({ "matchLabels": {} });
    let spec = match kind {
        "Job" => {
            template["spec"]["restartPolicy"] = "Never".into();
            json!({ "template": template })
        }
        "CronJob" => {
            template["spec"]["restartPolicy"] = "Never".into();
            json!({ "schedule": "* * * * *", "jobTemplate": { "spec": { "template": template } } })
        }
        "DaemonSet" => {
            // A DaemonSet makes pods only for nodes that match, and this label matches some.
            template["spec"]["nodeSelector"] = json!({ "chosen": "yes" });
            json!({ "selector": labels, "template": template })
        }
        "StatefulSet" => json!({
            "replicas": 1, "serviceName": "none", "selector": labels, "template": template,
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
        }),
        "ReplicationController" => json!({ "replicas": 1, "selector": {}, "template": template }),
        _ => json!({ "replicas": 1, "selector": labels, "template": template }),
    };
    json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "namespace": "default" }, "spec": spec,
    })
}

/// The pods that `evenkeel filter` asks a server about, read from the server's decision log.
fn decided(directory: &Path, workloads: &[Value], around: &[Value]) -> Vec<Pod> {
    let file = |name: &str| -> (PathBuf, String) {
        let path = directory.join(name);
        let text = path.to_str().expect("it is text").to_owned();
        (path, text)
    };
    let list = |items: Vec<Value>| json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let (log_path, log) = file("decisions.jsonl");
    let (asked_path, asked) = file("asked.json");
    let (nodes_path, cluster) = file("nodes.json");
    fs::write(nodes_path, list(nodes()).to_string()).expect("a file");
    let _ = fs::remove_file(&log_path);
    let flags = ["--load", &cluster, "--decision-log", &log];
    let server = process::Server::start(&[&flags[..], &["--decision-log-sample", "1"]].concat());
    for workload in workloads {
        let mut all = around.to_vec();
        all.push(workload.clone());
        fs::write(&asked_path, list(all).to_string()).expect("a file");
        let kind = workload["kind"].as_str().expect("a kind");
        let name = workload["metadata"]["name"].as_str().expect("a name");
        let name = format!("{kind}/{name}");
        let line = [
            "filter",
            "-f",
            &asked,
            "--name",
            &name,
            "--server",
            server.url(),
        ];
        let output = process::run(process::command(&line));
        assert!(output.err.is_empty(), "{name}: {output:?}");
    }
    let lines = until("the decisions are noted", || {
        let text = fs::read_to_string(&log_path).ok()?;
        // Whether a pod of a StatefulSet is there already is asked of no candidate.
        let asked = text.lines().filter(|line| !line.contains("\"candidates\""));
        let lines: Vec<String> = asked.map(str::to_owned).collect();
        (lines.len() == workloads.len() && text.ends_with('\n')).then_some(lines)
    });
    let pod = |line: String| {
        let line: Value = serde_json::from_str(&line).expect("JSON");
        read(line["request"]["pod"].clone())
    };
    lines.into_iter().map(pod).collect()
}

/// The first pod that a controller makes for a workload.
async fn came(api: &Api, workload: &Value) -> Pod {
    let name = &workload["metadata"]["name"];
    let start = Instant::now();
    loop {
        let mut pods = api.list("Pod").await.into_iter();
        if let Some(pod) = pods.find(|pod| pod["metadata"]["labels"]["app"] == *name) {
            return read(pod);
        }
        assert!(start.elapsed() < PATIENCE, "no pod of {name} comes");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the fields of a pod that decide, without those that only this pod has, the names that a
/// cluster gives, and the node affinity of a DaemonSet's pod. No priority counts as 0.
fn what_decides(mut pod: Pod) -> Value {
    let requests = RequestsByVersion::of(&pod).newest.to_wire();
    let metadata = pod.metadata.take().unwrap_or_default();
    let mut spec = pod.spec.take().unwrap_or_default();
    let mut labels = metadata.labels;
    labels.retain(|key, _| !UNKNOWN_LABELS.contains(&&**key));
    let hash = labels.get_mut("pod-template-hash");
    let hash = hash.map(|hash| std::mem::replace(hash, "next".to_owned()));
    for job in ["job-name", "batch.kubernetes.io/job-name"] {
        // The controller of a CronJob puts the minute into the name.
        if let Some(name) = labels
            .get_mut(job)
            .filter(|name| name.starts_with("cronjob-"))
        {
            *name = format!("{}-next", name.rsplit_once('-').expect("a name").0);
        }
    }
    let owner = |owner: OwnerReference| {
        let name = match &hash {
            Some(hash) => owner.name.replace(&**hash, "next"),
            None => owner.name,
        };
        (owner.api_version, owner.kind, name)
    };
    let owners = metadata.owner_references.into_iter();
    let owners = owners.filter(|it| OWNERS.contains(&&*it.kind) && it.controller == Some(true));
    let owners: Vec<_> = owners.map(owner).collect();
    if let Some(affinity) = &mut spec.affinity {
        affinity.node_affinity = None;
    }
    let mut tolerations: Vec<Value> = spec.tolerations.iter().map(|it| json!(it)).collect();
    tolerations.sort_by_key(Value::to_string);
    let claims = spec.volumes.iter().filter_map(|volume| {
        let claim = volume
            .source()
            .into_owned()
            .persistent_volume_claim?
            .claim_name;
        Some(
            claim
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
        )
    });
    let mut claims: Vec<String> = claims.collect();
    claims.sort_unstable();
    json!({
        "namespace": metadata.namespace,
        "labels": labels,
        "owners": owners,
        "nodeSelector": spec.node_selector,
        "affinity": spec.affinity,
        "tolerations": tolerations,
        "topologySpreadConstraints": spec.topology_spread_constraints,
        "requests": requests,
        "priority": spec.priority.unwrap_or(0),
        "claims": claims,
        "overhead": spec.overhead,
        "hostNetwork": spec.host_network,
    })
}
