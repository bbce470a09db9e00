//! Reads the content of a snapshot: exports and checks it, and finds pods in it by name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::backend::Client;
use super::exit::RefusedCall;
use super::what_if::{self, Overlay};
use crate::api::WORKLOAD_NOT_FOUND;
use crate::explain::{among, plural};
use crate::manifest::{NumberedPods, ObjectName, WorkloadPod};
use crate::matching::{Path, Violations, names};
use crate::misspelt::nearest;
use crate::proto::v1::change::Object;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    Change, ClaimTemplate, DescribeSpreadRequest, DescribeSpreadResponse, EphemeralSource,
    ExportSnapshotRequest, ExportSnapshotResponse, ObjectReference, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, Pod, StatefulSetSpec, WorkloadName,
};
use crate::snapshot::owners::{Adopter, Owner, Owners};
use crate::snapshot::{ObjectId, ObjectKind};
use crate::spread::describe::{WorkloadId, controller, is_controlled_by};

/// The labels with which a controller distinguishes the pods of a workload.
const POD_LABELS: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
];

/// Reads the export of a snapshot, part by part, and checks that it is whole.
///
/// # Errors
/// The export is incomplete, or a call or `take` failed.
pub(crate) async fn export(
    client: &Client,
    snapshot: &str,
    mut take: impl FnMut(ExportSnapshotResponse) -> Result<()>,
) -> Result<()> {
    let request = ExportSnapshotRequest {
        snapshot: snapshot.to_owned(),
    };
    let mut parts = match client.rpc().export_snapshot(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return Err(client.failed(status, Vec::new()).await),
    };
    let (mut read, mut sent) = (0, None);
    loop {
        let part = match parts.message().await {
            Ok(part) => part,
            Err(status) => return Err(client.failed(status, Vec::new()).await),
        };
        let Some(part) = part else { break };
        read += part.update.as_ref().map_or(0, |it| it.changes.len() as i64);
        sent = part.summary.as_ref().map(|it| it.object_count);
        take(part)?;
    }
    anyhow::ensure!(
        sent == Some(read),
        "the export was cut short: it has {read} objects"
    );
    Ok(())
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
    export(client, snapshot, take).await
}

/// The pods among changes.
pub(crate) fn pods_of(changes: &[Change]) -> impl Iterator<Item = &Pod> {
    changes.iter().filter_map(|change| match &change.object {
        Some(Object::Pod(pod)) => Some(pod),
        _ => None,
    })
}

/// Returns whether a pod has no spread constraints of its own, so that default ones apply to it.
pub(crate) fn has_no_constraints(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_none_or(|spec| spec.topology_spread_constraints.is_empty())
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

/// The controllers of a snapshot, which adopt pods without one.
#[derive(Default)]
pub(crate) struct Controllers(HashMap<String, Owners>);

impl Controllers {
    /// Considers an object.
    pub(crate) fn offer(&mut self, object: &Object) {
        let id = ObjectId::of(object);
        let ObjectKind::Owner(kind) = id.kind else {
            return;
        };
        // The objects of a snapshot have been checked.
        let mut faults = Violations::default();
        if let Some(owner) = Owner::compile(object, Path::root("spec"), &mut faults) {
            let owners = self.0.entry(id.namespace.to_owned()).or_default();
            owners.put(kind, id.name, &Arc::new(owner));
        }
    }

    /// The controller that would adopt a pod if it had none.
    fn adopter<'a>(&'a self, pod: &Pod) -> Option<Adopter<'a>> {
        let owners = self.0.get(namespace_of(pod))?;
        owners.adopter(&pod.metadata.as_ref()?.labels)
    }

    /// The workload that a pod belongs to.
    pub(crate) fn workload_of(&self, pod: &Pod) -> WorkloadId {
        WorkloadId::of(pod, self.adopter(pod))
    }

    /// Returns whether a pod has this name, or belongs to the workload with this name.
    pub(crate) fn are_of(&self, pod: &Pod, name: &ObjectName) -> bool {
        let kind = name.kind.as_deref().unwrap_or_default();
        if name.namespace.as_deref() != Some(namespace_of(pod)) {
            return false;
        }
        if kind == "Pod" {
            return name_of(pod) == name.name;
        }
        let workload = self.workload_of(pod);
        (&*workload.kind, &*workload.name) == (kind, &*name.name)
            || is_controlled_by(pod, self.adopter(pod), kind, &name.name)
    }
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
    let (mut pods, mut claims) = (Vec::new(), Vec::new());
    let (mut itself, mut controllers) = (None, Controllers::default());
    let mut known = BTreeSet::new();
    let take = |object: &Object| {
        if let Object::Pod(pod) = object {
            known.extend(name_among(pod, kind));
        }
        let id = ObjectId::of(object);
        if name.namespace.as_deref() != Some(id.namespace) {
            return;
        }
        if id.kind.as_str() == kind && id.name == name.name {
            itself = Some(object.clone());
        }
        controllers.offer(object);
        match object {
            Object::Pod(pod) => pods.push(pod.clone()),
            Object::PersistentVolumeClaim(claim) => claims.push(claim.clone()),
            _ => {}
        }
    };
    objects(client, snapshot, take).await?;
    pods.retain(|pod| controllers.are_of(pod, name));
    let first = pods.first().with_context(|| {
        let unknown = name.of_unknown_kind();
        let unknown = unknown.map_or_else(String::new, |unknown| format!("{unknown}: "));
        match itself.is_some() {
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
    // A snapshot does not keep the scheduler's name, and of other workloads than StatefulSets not
    // how many replicas are wanted.
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
    let makers = pods
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
    if kind == "StatefulSet" {
        let spec = match itself {
            Some(Object::StatefulSet(it)) => it.spec.unwrap_or_default(),
            _ => StatefulSetSpec::default(),
        };
        workload.replicas = spec.replicas;
        let claims = claims_of(&mut workload.pod, &claims);
        workload.numbered = Some(NumberedPods::stored(&name.name, &spec, claims));
    }
    make_new(&mut workload.pod);
    Ok(workload)
}

/// The name of a pod, or of its workload, if that is of `kind`.
fn name_among(pod: &Pod, kind: &str) -> Option<String> {
    let name = match kind {
        "Pod" => name_of(pod).to_owned(),
        _ => {
            Some(WorkloadId::of(pod, None))
                .filter(|it| it.kind == kind)?
                .name
        }
    };
    Some(format!("{kind}/{}/{name}", namespace_of(pod)))
}

/// The claim templates of a StatefulSet by its pod, after which the volumes of the pod are then
/// called: a snapshot does not keep their names. If the pod's claim is known, one like it is the
/// template for the claims of other pods.
fn claims_of(pod: &mut Pod, known: &[PersistentVolumeClaim]) -> Vec<String> {
    let of_pod = format!("-{}", name_of(pod));
    let mut templates = Vec::new();
    for volume in &mut pod.spec.get_or_insert_default().volumes {
        let mut source = volume.source().into_owned();
        let claim = source.persistent_volume_claim.as_ref();
        let called = claim.map_or_else(String::new, |claim| claim.claim_name.clone());
        let Some(template) = called.strip_suffix(&of_pod) else {
            continue;
        };
        let is_it = |claim: &&PersistentVolumeClaim| {
            let metadata = claim.metadata.as_ref();
            metadata.is_some_and(|metadata| metadata.name == called)
        };
        if let Some(claim) = known.iter().find(is_it) {
            let spec = PersistentVolumeClaimSpec {
                volume_name: String::new(),
                ..claim.spec.clone().unwrap_or_default()
            };
            source.ephemeral = Some(EphemeralSource {
                volume_claim_template: Some(ClaimTemplate { spec: Some(spec) }),
            });
        }
        volume.volume_source = Some(source);
        template.clone_into(&mut volume.name);
        templates.push(template.to_owned());
    }
    templates
}

/// The unfinished pods of a workload that are in a snapshot.
#[derive(Debug, Default)]
pub(crate) struct PodsThere {
    /// The revision, with the epoch and the default constraints.
    pub(crate) answer: DescribeSpreadResponse,
    /// The workload.
    pub(crate) of: ObjectReference,
    /// The namespace of the pods.
    pub(crate) namespace: String,
    /// The names of the pods that are on nodes.
    pub(crate) on_nodes: Vec<String>,
    /// The names of the pods that wait for a node.
    pub(crate) waiting: Vec<String>,
    /// The number of these pods that name no controller and were found by a selector.
    pub(crate) selected: i64,
}

impl PodsThere {
    /// The lowest numbers of pods of a StatefulSet that are on no node.
    pub(crate) fn missing<'p>(&'p self, pods: &'p NumberedPods) -> impl Iterator<Item = u32> + 'p {
        let there: HashSet<&str> = self.on_nodes.iter().map(String::as_str).collect();
        (pods.start..).filter(move |ordinal| !there.contains(&*pods.name(*ordinal)))
    }

    /// The pod of a StatefulSet that its controller creates next, with its name: that with the lowest
    /// number that is on no node.
    pub(crate) fn next(&self, workload: &WorkloadPod) -> Option<(Pod, String)> {
        let pods = workload.numbered.as_ref()?;
        let ordinal = self.missing(pods).next().unwrap_or(pods.start);
        Some((pods.pod(&workload.pod, ordinal), pods.name(ordinal)))
    }

    /// Returns how many pods alike wait for a node: the replicas that the workload wants besides its pods
    /// on nodes. Of pods with claims of their own no two are alike.
    pub(crate) fn alike(&self, workload: &WorkloadPod) -> i32 {
        if workload.has_own_claims() {
            return 1;
        }
        let placed = i32::try_from(self.on_nodes.len()).unwrap_or(i32::MAX);
        let wanted = workload.replicas.unwrap_or(1);
        wanted.saturating_sub(placed).max(1)
    }

    /// Returns whether the workload has no pods.
    pub(crate) fn is_empty(&self) -> bool {
        self.on_nodes.is_empty() && self.waiting.is_empty()
    }
}

/// The unfinished pods of a workload, but those that `overlay` deletes. A Pod has none. Waits until
/// the snapshot has reached `min_revision`.
pub(crate) async fn pods_there(
    client: &Client,
    (snapshot, min_revision): (&str, i64),
    workload: &WorkloadPod,
    overlay: &Overlay,
) -> Result<PodsThere> {
    let object = &workload.object;
    let none = PodsThere {
        of: object.clone(),
        namespace: object.namespace.clone(),
        ..PodsThere::default()
    };
    if object.kind == "Pod" {
        return Ok(none);
    }
    let request = DescribeSpreadRequest {
        snapshot: snapshot.to_owned(),
        namespace: object.namespace.clone(),
        subject: Some(Subject::Workload(WorkloadName {
            kind: object.kind.clone(),
            name: object.name.clone(),
            selector: workload.selector.clone(),
        })),
        max_domains: Some(1),
        min_revision,
        list_pods: true,
        ..DescribeSpreadRequest::default()
    };
    let mut answer = match client.call(request).await {
        Ok(answer) => answer,
        Err(error) if RefusedCall::is_for(&error, WORKLOAD_NOT_FOUND) => return Ok(none),
        Err(error) => return Err(error),
    };
    let found = answer.workloads.pop().unwrap_or_default();
    let mut there = PodsThere {
        answer,
        selected: found.selected_count,
        ..none
    };
    for pod in found.pods {
        if overlay.mentions(&what_if::pod_called(&object.namespace, &pod.name)) {
            continue;
        }
        let names = match &*pod.node {
            "" => &mut there.waiting,
            _ => &mut there.on_nodes,
        };
        names.push(pod.name);
    }
    Ok(there)
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
