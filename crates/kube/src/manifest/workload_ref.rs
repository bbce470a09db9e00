//! Argo Rollouts that take their pod template from another workload, as `spec.workloadRef` says.

use std::collections::BTreeSet;

use serde_json::Value;

use super::item::text;
use evenkeel_core::matching::names;

/// The kinds that a Rollout may refer to, each with the place of its template.
const REFERABLE: [(&str, &str); 3] = [
    ("Deployment", "/spec/template"),
    ("ReplicaSet", "/spec/template"),
    ("PodTemplate", "/template"),
];

/// The kind and name of the workload that has the template of a Rollout.
pub(super) fn template_of(value: &Value) -> Option<(&str, &str)> {
    let other = value.pointer("/spec/workloadRef")?;
    let is_rollout = text(value, "kind") == "Rollout";
    is_rollout.then(|| (text(other, "kind"), text(other, "name")))
}

/// As [`template_of`], of a Rollout without a template.
pub(super) fn referred(value: &Value) -> Option<(&str, &str)> {
    template_of(value).filter(|_| value.pointer("/spec/template").is_none())
}

/// The kinds of the workloads that have the templates of Rollouts without one.
pub fn referred_kinds(objects: &[Value]) -> BTreeSet<String> {
    let referred = objects.iter().filter_map(referred);
    referred.map(|(kind, _)| kind.to_owned()).collect()
}

/// Returns whether a Rollout may refer to objects of a kind.
pub(super) fn is_referable(kind: &str) -> bool {
    REFERABLE.iter().any(|(referable, _)| *referable == kind)
}

/// A Rollout with the template of the workload that it refers to, and with its selector unless the
/// Rollout has one. `None` if it refers to another.
pub(super) fn resolved(rollout: &Value, other: &Value) -> Option<Value> {
    let (kind, name) = referred(rollout)?;
    let namespace =
        |it: &Value| names::namespace_or_default(text(&it["metadata"], "namespace")).to_owned();
    let is_it = text(other, "kind") == kind
        && text(&other["metadata"], "name") == name
        && namespace(other) == namespace(rollout);
    let (_, place) = REFERABLE.iter().find(|(it, _)| is_it && *it == kind)?;
    let mut resolved = rollout.clone();
    let spec = resolved["spec"].as_object_mut()?;
    spec.insert("template".to_owned(), other.pointer(place)?.clone());
    if let Some(selector) = other.pointer("/spec/selector") {
        spec.entry("selector").or_insert_with(|| selector.clone());
    }
    Some(resolved)
}

/// Returns whether a workload has no pods of its own: its Rollout is what runs.
pub(super) fn is_only_template(value: &Value) -> bool {
    text(value, "kind") == "PodTemplate" || value["spec"]["replicas"] == 0
}
