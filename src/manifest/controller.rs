//! Completes pods as a controller does when it creates them from a template (`docs/semantics.md`,
//! "Templates").

use serde_json::{Value, json};

use super::item::text;

/// Stands for a part of a name, or a hash, that a cluster will generate later. Generated ones have
/// no vowels, so they differ from this.
pub(super) const NEXT: &str = "next";

/// Adds the fields that the controller of `workload` adds to its next pod.
pub(super) fn complete(pod: &mut Value, workload: &Value) {
    match text(workload, "kind") {
        "DaemonSet" => tolerate_node_conditions(pod),
        "StatefulSet" => {
            let revision = workload.pointer("/status/updateRevision");
            if let Some(revision) = revision.filter(|revision| **revision != "") {
                add_label(pod, "controller-revision-hash", revision.clone());
            }
            claim_storage(pod, workload);
        }
        "Job" => label_as_job(pod, text(&workload["metadata"], "name").into()),
        "CronJob" => {
            let name = format!("{}-{NEXT}", text(&workload["metadata"], "name"));
            label_as_job(pod, name.into());
        }
        _ => {}
    }
}

/// Adds the tolerations by which pods of DaemonSets stay on nodes in trouble and run on cordoned
/// nodes.
fn tolerate_node_conditions(pod: &mut Value) {
    let on_host = pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    let conditions = [
        ("not-ready", "NoExecute", true),
        ("unreachable", "NoExecute", true),
        ("disk-pressure", "NoSchedule", true),
        ("memory-pressure", "NoSchedule", true),
        ("pid-pressure", "NoSchedule", true),
        ("unschedulable", "NoSchedule", true),
        ("network-unavailable", "NoSchedule", on_host),
    ];
    for (condition, effect, _) in conditions.into_iter().filter(|(_, _, is_so)| *is_so) {
        add_toleration(
            pod,
            json!({
                "key": format!("node.kubernetes.io/{condition}"),
                "operator": "Exists",
                "effect": effect,
            }),
        );
    }
}

/// Adds the claims for the pod after the last replica of a StatefulSet. A volume of the same name
/// is replaced.
fn claim_storage(pod: &mut Value, workload: &Value) {
    let spec = &workload["spec"];
    let number = |value: Option<&Value>, default| value.and_then(Value::as_i64).unwrap_or(default);
    let first = number(spec.pointer("/ordinals/start"), 0);
    let ordinal = first.saturating_add(number(spec.get("replicas"), 1));
    let claims = spec["volumeClaimTemplates"].as_array();
    for claim in claims.into_iter().flatten() {
        let name = text(&claim["metadata"], "name");
        let Some(volumes) = list_mut(pod, "volumes") else {
            return;
        };
        volumes.retain(|volume| text(volume, "name") != name);
        let pod_name = format!("{}-{ordinal}", text(&workload["metadata"], "name"));
        volumes.push(json!({
            "name": name,
            "persistentVolumeClaim": { "claimName": format!("{name}-{pod_name}") },
            // The claim's template counts if the claim does not exist.
            "ephemeral": { "volumeClaimTemplate": { "spec": claim["spec"] } },
        }));
    }
}

/// Adds the labels with the name of the Job, unless its template has them already. An API server
/// does the same.
fn label_as_job(pod: &mut Value, name: Value) {
    for label in ["batch.kubernetes.io/job-name", "job-name"] {
        if pod["metadata"]["labels"][label].is_null() {
            add_label(pod, label, name.clone());
        }
    }
}

fn add_label(pod: &mut Value, label: &str, value: Value) {
    if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
        labels.insert(label.to_owned(), value);
    }
}

/// Adds a toleration, unless the pod has the same one.
pub(super) fn add_toleration(pod: &mut Value, toleration: Value) {
    if let Some(tolerations) = list_mut(pod, "tolerations")
        && !tolerations.contains(&toleration)
    {
        tolerations.push(toleration);
    }
}

/// A list of a pod's spec, created if it is missing.
fn list_mut<'p>(pod: &'p mut Value, name: &str) -> Option<&'p mut Vec<Value>> {
    let spec = pod.get_mut("spec")?.as_object_mut()?;
    spec.entry(name).or_insert_with(|| json!([])).as_array_mut()
}
