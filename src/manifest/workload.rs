//! The pod that a decision is about: a Pod, or the pods that a workload would
//! make.

use serde_json::{Value, json};

use super::embedded::{TemplatePath, path_of_kind, template_paths};
use super::error::ManifestError;
use super::fleet::{PlacementPolicy, is_placement, placement};
use super::item::{Item, describe, metadata, text};
use super::source::InputSource;
use crate::proto::v1::{Dialect, Pod};

/// A pod and what it was made from.
#[derive(Debug)]
pub(crate) struct WorkloadPod {
    /// Kind, namespace and name of the object in the file.
    pub(crate) name: String,
    /// The pod. Of a pod template it has no name.
    pub(crate) pod: Pod,
    /// How many of it are wanted; 1 where the object does not say.
    pub(crate) replicas: i32,
    /// The policy of a fleet's placement.
    pub(crate) policy: Option<PlacementPolicy>,
}

impl WorkloadPod {
    /// By which rules it is decided.
    pub(crate) fn dialect(&self) -> Dialect {
        match self.policy {
            Some(_) => Dialect::Fleet,
            None => Dialect::Unspecified,
        }
    }
}

/// The pod of an object that has one pod template, or is a placement.
///
/// A pod template becomes a pod with the template's labels and the workload's
/// namespace. The pods of a ReplicaSet, StatefulSet or ReplicationController
/// have it as their owner, so that the selector of default constraints is
/// deduced as for the real pods. Those of a Deployment or a CronJob have an
/// owner in between, so they get none. An object of another kind is a workload
/// if it has one pod template.
pub(super) fn workload_pod(item: Item, source: &InputSource) -> Result<WorkloadPod, ManifestError> {
    let name = describe(&item.value);
    let replicas = replicas(&item.value);
    let (pod, policy) = if is_placement(text(&item.value, "kind")) {
        let (pod, policy) = placement(item, source)?;
        (pod, Some(policy))
    } else {
        let place = the_template(&item, source)?;
        (pod_of(item, &place, source)?, None)
    };
    Ok(WorkloadPod {
        name,
        pod,
        replicas,
        policy,
    })
}

/// How many pods an object wants: its replicas, or what a Job runs at once.
fn replicas(value: &Value) -> i32 {
    let paths = [
        "/spec/replicas",
        "/spec/parallelism",
        "/spec/jobTemplate/spec/parallelism",
    ];
    let wanted = paths.iter().find_map(|path| value.pointer(path)?.as_i64());
    i32::try_from(wanted.unwrap_or(1)).unwrap_or(i32::MAX)
}

/// Where the one pod template of an item is.
fn the_template(item: &Item, source: &InputSource) -> Result<TemplatePath, ManifestError> {
    let fault = |field: String, message: String| ManifestError::Field {
        place: item.origin.describe(source),
        object: describe(&item.value),
        field,
        message,
    };
    let mut paths = template_paths(&item.value);
    match (paths.pop(), &*paths) {
        (Some(path), []) => Ok(path),
        (Some(last), before) => {
            let fields: Vec<&str> = before.iter().map(|path| &*path.field).collect();
            let message = format!("{} is a pod template too: put one into a Pod", last.field);
            Err(fault(fields.join(", "), message))
        }
        (None, _) => {
            let path = path_of_kind(text(&item.value, "kind")).unwrap_or_default();
            let field = path.trim_start_matches('/').replace('/', ".");
            Err(fault(field, "no pod template there".to_owned()))
        }
    }
}

/// The pod of an item that has a template at `place`.
pub(super) fn pod_of(
    mut item: Item,
    place: &TemplatePath,
    source: &InputSource,
) -> Result<Pod, ManifestError> {
    if !place.pointer.is_empty() {
        item.value = template_pod(&item.value, place);
    }
    let mut pod: Pod = item.decode(source)?;
    // Where it runs is not where it has to.
    let runs = pod
        .status
        .as_ref()
        .is_some_and(|status| !status.phase.is_empty());
    if let Some(spec) = pod.spec.as_mut().filter(|_| runs) {
        spec.node_name.clear();
    }
    Ok(pod)
}

/// The pod that the workload's template describes, as JSON.
fn template_pod(workload: &Value, place: &TemplatePath) -> Value {
    let kind = text(workload, "kind");
    let template = workload.pointer(&place.pointer).unwrap_or(&Value::Null);
    let metadata = metadata(workload);
    let mut pod = json!({
        "kind": kind,
        "metadata": {
            "namespace": text(metadata, "namespace"),
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
        },
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    });
    if let "ReplicaSet" | "StatefulSet" | "ReplicationController" = kind {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": text(workload, "apiVersion"),
            "kind": kind,
            "name": text(metadata, "name"),
            "controller": true,
        }]);
    }
    pod
}
