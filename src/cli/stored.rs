//! Reads the content of a snapshot: exports and checks it, and finds pods in it by name.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::backend::Client;
use super::exit::RefusedCall;
use crate::api::ExportSum;
use crate::explain::{among, plural};
use crate::manifest::{ObjectName, WorkloadPod};
use crate::matching::names;
use crate::misspelt::nearest;
use crate::proto::v1::change::Object;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    Change, DescribeSpreadRequest, DescribeSpreadResponse, ExportSnapshotRequest,
    ExportSnapshotResponse, ExportSummary, ObjectReference, Pod, WorkloadName,
};
use crate::snapshot::ObjectId;
use crate::spread::describe::{WorkloadId, controller, is_controlled_by};

/// The labels with which a controller distinguishes the pods of a workload.
const POD_LABELS: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
];

/// Reads the export of a snapshot, part by part, and checks it. Returns the server's summary.
///
/// # Errors
/// The export is incomplete, or a call or `take` failed.
pub(crate) async fn export(
    client: &Client,
    snapshot: &str,
    mut take: impl FnMut(ExportSnapshotResponse) -> Result<()>,
) -> Result<ExportSummary> {
    let failed = |status| RefusedCall::or_unreachable(status, Vec::new());
    let request = ExportSnapshotRequest {
        snapshot: snapshot.to_owned(),
    };
    let answer = client.rpc().export_snapshot(request).await;
    let mut parts = answer.map_err(failed)?.into_inner();
    let (mut sum, mut summary) = (ExportSum::default(), None);
    while let Some(mut part) = parts.message().await.map_err(failed)? {
        if let Some(update) = &part.update {
            sum.add_update(update);
        }
        summary = part.summary.take();
        take(part)?;
    }
    let summary = summary.context(
        "the export was cut short: the server did not sum it up (one of an earlier version cannot)",
    )?;
    anyhow::ensure!(
        summary == sum.finish(),
        "the export is not what the server says that it sent. It may know fields that this \
         version does not"
    );
    Ok(summary)
}

/// Passes all objects of a snapshot to `take`.
pub(crate) async fn objects(
    client: &Client,
    snapshot: &str,
    mut take: impl FnMut(&Object),
) -> Result<()> {
    let take = |part: ExportSnapshotResponse| {
        let changes = part.update.unwrap_or_default().changes;
        let objects = changes.iter().filter_map(|change| change.object.as_ref());
        objects.for_each(&mut take);
        Ok(())
    };
    export(client, snapshot, take).await?;
    Ok(())
}

/// The pods among changes.
pub(crate) fn pods_of(changes: &[Change]) -> impl Iterator<Item = &Pod> {
    changes.iter().filter_map(|change| match &change.object {
        Some(Object::Pod(pod)) => Some(pod),
        _ => None,
    })
}

/// The namespace of a pod.
pub(crate) fn namespace_of(pod: &Pod) -> &str {
    let metadata = pod.metadata.as_ref();
    names::namespace_or_default(metadata.map_or("", |metadata| &metadata.namespace))
}

/// The name of a pod.
pub(crate) fn name_of(pod: &Pod) -> &str {
    let metadata = pod.metadata.as_ref();
    metadata.map_or("", |metadata| &metadata.name)
}

/// Returns the pod called `name`, or a new pod of the workload with this name. A snapshot has no
/// templates, so the new pod is a copy of an existing one.
///
/// # Errors
/// There is no such pod, or the pods of the workload are of several revisions.
pub(crate) async fn workload(
    client: &Client,
    snapshot: &str,
    name: &ObjectName,
) -> Result<WorkloadPod> {
    let kind = name.kind.as_deref().unwrap_or_default();
    let (mut found, mut is_there) = (Vec::new(), false);
    let mut known = BTreeSet::new();
    let take = |object: &Object| {
        is_there |= is_called(object, kind, name);
        let Object::Pod(pod) = object else { return };
        if is_of(pod, kind, name) {
            found.push(pod.clone());
        }
        known.extend(name_among(pod, kind));
    };
    objects(client, snapshot, take).await?;
    let first = found.first().with_context(|| {
        let unknown = name.of_unknown_kind();
        let unknown = unknown.map_or_else(String::new, |unknown| format!("{unknown}: "));
        match is_there {
            true => format!(
                "snapshot {snapshot:?} has {name}, without its template, and no pod that it made: \
                 give a file with -f"
            ),
            false => format!(
                "{unknown}snapshot {snapshot:?} has no {name}, nor a pod that it made: give a \
                 file with -f{}",
                nearest(&name.to_string(), known.iter().map(String::as_str))
            ),
        }
    })?;
    // A snapshot does not keep how many replicas are wanted, nor the scheduler's name.
    let mut workload = WorkloadPod {
        name: format!("{kind} {}/{}", namespace_of(first), name.name),
        pod: first.clone(),
        object: ObjectReference {
            kind: kind.to_owned(),
            namespace: namespace_of(first).to_owned(),
            name: name.name.clone(),
            ..ObjectReference::default()
        },
        ..WorkloadPod::default()
    };
    if kind == "Pod" {
        return Ok(workload);
    }
    let makers = found
        .iter()
        .filter_map(|pod| controller(pod.metadata.as_ref()?));
    let mut makers: Vec<&str> = makers.map(|owner| &*owner.name).collect();
    makers.sort_unstable();
    makers.dedup();
    anyhow::ensure!(
        makers.len() <= 1,
        "the pods of {name} are of {}: say which with rs/NAME, one of {}",
        plural(makers.len(), "revision"),
        among(&makers)
    );
    workload.name += &format!(", a pod like {}", name_of(first));
    make_new(&mut workload.pod);
    Ok(workload)
}

/// The name of a pod, or of its workload, if that is of `kind`.
fn name_among(pod: &Pod, kind: &str) -> Option<String> {
    let name = match kind {
        "Pod" => name_of(pod).to_owned(),
        _ => Some(WorkloadId::of(pod)).filter(|it| it.kind == kind)?.name,
    };
    Some(format!("{kind}/{}/{name}", namespace_of(pod)))
}

/// Returns whether an object has this name.
fn is_called(object: &Object, kind: &str, name: &ObjectName) -> bool {
    let id = ObjectId::of(object);
    id.kind.as_str() == kind
        && id.name == name.name
        && name.namespace.as_deref() == Some(id.namespace)
}

/// The spread of the unfinished pods of a workload; `None` if it has no pods, and for a Pod.
pub(crate) async fn pods_there(
    client: &Client,
    snapshot: &str,
    workload: &ObjectReference,
) -> Result<Option<DescribeSpreadResponse>> {
    if workload.kind == "Pod" {
        return Ok(None);
    }
    let request = DescribeSpreadRequest {
        snapshot: snapshot.to_owned(),
        namespace: workload.namespace.clone(),
        subject: Some(Subject::Workload(WorkloadName {
            kind: workload.kind.clone(),
            name: workload.name.clone(),
        })),
        max_domains: Some(1),
        ..DescribeSpreadRequest::default()
    };
    match client.call(request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if RefusedCall::is_without_pods(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a pod has this name, or belongs to the workload with this name.
pub(crate) fn is_of(pod: &Pod, kind: &str, name: &ObjectName) -> bool {
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

/// Turns a pod into the next pod of its workload: removes the fields that belong only to this pod.
fn make_new(pod: &mut Pod) {
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
}
