//! The pod that a decision is about: a Pod, or the pods that a workload would
//! make.

use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::document::for_each_item;
use super::embedded::{TemplatePath, path_of_kind, template_paths};
use super::error::ManifestError;
use super::fleet::{PlacementPolicy, is_placement, placement};
use super::item::{Item, describe, metadata, text};
use super::naming::ObjectName;
use super::source::{InputSource, expand};
use crate::proto::v1::{Dialect, Pod};

/// How many choices an error lists.
const LISTED_CHOICES: usize = 20;

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

/// Reads the pod of the one workload in `path` (`-`: standard input), or of
/// the one called `name`.
/// `namespace` overrides the workload's, whatever the file says.
///
/// A pod template becomes a pod with the template's labels and the workload's
/// namespace. The pods of a ReplicaSet, StatefulSet or ReplicationController
/// have it as their owner, so that the selector of default constraints is
/// deduced as for the real pods. Those of a Deployment or a CronJob have an
/// owner in between that is not in the file, so they get no owner. An object of
/// another kind is a workload if it has one pod template.
pub(crate) fn read_workload(
    path: &Path,
    name: Option<&ObjectName>,
    namespace: Option<&str>,
) -> Result<WorkloadPod, ManifestError> {
    let mut found = Vec::new();
    let mut choices = Vec::new();
    let sources = expand(&[path.to_path_buf()])?;
    for (index, source) in sources.iter().enumerate() {
        for_each_item(source, index, &ProgressBar::hidden(), &mut |item| {
            let kind = text(&item.value, "kind");
            let has_pods = path_of_kind(kind).is_some() || is_placement(kind);
            if has_pods || !template_paths(&item.value).is_empty() {
                choices.push(choice(&item.value));
                if name.is_none_or(|name| is_called(&item.value, name)) {
                    found.push(item);
                }
            }
            Ok(())
        })?;
    }
    let item = the_one(found, &choices, name, path)?;
    let source = &sources[item.origin.source as usize];
    let mut name = describe(&item.value);
    if let Some(namespace) = namespace {
        name.push_str(&format!(", in namespace {namespace}"));
    }
    let replicas = replicas(&item.value);
    let (mut pod, policy) = if is_placement(text(&item.value, "kind")) {
        let (pod, policy) = placement(item, source)?;
        (pod, Some(policy))
    } else {
        let place = the_template(&item, source)?;
        (pod_of(item, &place, source)?, None)
    };
    if let Some(namespace) = namespace {
        pod.metadata.get_or_insert_default().namespace = namespace.to_owned();
    }
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

/// The only item of `found`, else an error that says what there is.
fn the_one(
    found: Vec<Item>,
    choices: &[String],
    name: Option<&ObjectName>,
    path: &Path,
) -> Result<Item, ManifestError> {
    let count = found.len();
    let found = match <[Item; 1]>::try_from(found) {
        Ok([item]) => return Ok(item),
        Err(found) => found,
    };
    let matching: Vec<String> = found.iter().map(|item| choice(&item.value)).collect();
    let problem = match name {
        _ if choices.is_empty() => "no Pod or workload with a pod template in it".to_owned(),
        Some(name) if count == 0 => format!("no {name} in it; there is {}", listed(choices)),
        Some(name) => format!(
            "{count} objects called {name} in it; say which with --name KIND/NAMESPACE/NAME: {}",
            listed(&matching)
        ),
        None => format!(
            "{count} pods and workloads in it; say which with --name KIND/NAME: {}",
            listed(&matching)
        ),
    };
    Err(ManifestError::Choice(format!(
        "{}: {problem}",
        path.display()
    )))
}

/// `KIND/NAMESPACE/NAME` of an object, as `--name` takes it.
fn choice(value: &Value) -> String {
    let (kind, namespace, name) = parts(value);
    format!("{kind}/{namespace}/{name}")
}

/// Kind, namespace and name of an object.
fn parts(value: &Value) -> (&str, &str, &str) {
    let metadata = metadata(value);
    let namespace = match text(metadata, "namespace") {
        "" => "default",
        namespace => namespace,
    };
    (text(value, "kind"), namespace, text(metadata, "name"))
}

fn is_called(value: &Value, name: &ObjectName) -> bool {
    let (kind, namespace, called) = parts(value);
    name.is_of(kind, namespace, called)
}

fn listed(choices: &[String]) -> String {
    let mut text = choices[..choices.len().min(LISTED_CHOICES)].join(", ");
    if choices.len() > LISTED_CHOICES {
        text.push_str(&format!(" and {} more", choices.len() - LISTED_CHOICES));
    }
    text
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
