//! The pods that a snapshot holds, found by what they are called.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::backend::Client;
use super::export::Export;
use crate::explain::{among, plural};
use crate::manifest::{ObjectName, WorkloadPod};
use crate::matching::names;
use crate::proto::v1::change::Object;
use crate::proto::v1::{Change, Pod};
use crate::spread::describe::{WorkloadId, controller, is_controlled_by};

/// Labels that a controller gives to one pod alone: its number.
const POD_LABELS: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
];

/// All pods of a snapshot that `keep` wants.
pub(crate) async fn pods(
    client: &Client,
    snapshot: &str,
    mut keep: impl FnMut(&Pod) -> bool,
) -> Result<Vec<Pod>> {
    let mut export = Export::of(client, snapshot).await?;
    let mut pods = Vec::new();
    while let Some(part) = export.next().await? {
        let changes = part.update.changes.into_iter();
        pods.extend(changes.filter_map(pod_of).filter(|pod| keep(pod)));
    }
    Ok(pods)
}

/// The pod that a change is about, if it is about one.
fn pod_of(change: Change) -> Option<Pod> {
    match change.object {
        Some(Object::Pod(pod)) => Some(pod),
        _ => None,
    }
}

/// The namespace that a pod is in.
pub(crate) fn namespace_of(pod: &Pod) -> &str {
    let metadata = pod.metadata.as_ref();
    names::namespace_or_default(metadata.map_or("", |metadata| &metadata.namespace))
}

/// The name of a pod.
pub(crate) fn name_of(pod: &Pod) -> &str {
    let metadata = pod.metadata.as_ref();
    metadata.map_or("", |metadata| &metadata.name)
}

/// The pod called `name`, or a new pod of the workload that is called so. A
/// snapshot holds no workloads, so their next pod is one like those that they
/// have.
///
/// # Errors
/// There is none, or the pods of the workload are of several revisions.
pub(crate) async fn workload(
    client: &Client,
    snapshot: &str,
    name: &ObjectName,
) -> Result<WorkloadPod> {
    let kind = name.kind.as_deref().unwrap_or_default();
    let is_it = |pod: &Pod| is_of(pod, kind, name);
    let found = pods(client, snapshot, is_it).await?;
    let first = found.first().cloned();
    let first = first.with_context(|| {
        format!("snapshot {snapshot:?} has no {name}, nor a pod that it made: give a file with -f")
    })?;
    let full_name = format!("{kind} {}/{}", namespace_of(&first), name.name);
    if kind == "Pod" {
        return Ok(of(full_name, first));
    }
    let makers: BTreeSet<&str> = found.iter().filter_map(maker).collect();
    anyhow::ensure!(
        makers.len() <= 1,
        "the pods of {name} are of {}: say which with rs/NAME, one of {}",
        plural(makers.len(), "revision"),
        among(
            &makers
                .iter()
                .copied()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        )
    );
    let alike = name_of(&first).to_owned();
    Ok(of(
        format!("{full_name}, a pod like {alike}"),
        new_pod(first),
    ))
}

fn of(name: String, pod: Pod) -> WorkloadPod {
    WorkloadPod {
        name,
        pod,
        replicas: 1,
        policy: None,
    }
}

/// Whether a pod is called so, or is one of the workload that is.
fn is_of(pod: &Pod, kind: &str, name: &ObjectName) -> bool {
    if name.namespace.as_deref() != Some(namespace_of(pod)) {
        return false;
    }
    if kind == "Pod" {
        return name_of(pod) == name.name;
    }
    let workload = WorkloadId::of(pod);
    (&*workload.kind, &*workload.name) == (kind, &*name.name)
        || is_controlled_by(pod, kind, &name.name)
}

fn maker(pod: &Pod) -> Option<&str> {
    let metadata = pod.metadata.as_ref()?;
    controller(metadata).map(|owner| &*owner.name)
}

/// The next pod of the workload that made `pod`: without what is of that one
/// alone.
fn new_pod(mut pod: Pod) -> Pod {
    if let Some(metadata) = &mut pod.metadata {
        metadata.name.clear();
        metadata.uid.clear();
        metadata.resource_version.clear();
        metadata.deletion_timestamp = None;
        for label in POD_LABELS {
            metadata.labels.remove(label);
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.node_name.clear();
    }
    pod.status = None;
    pod
}
