//! Completes pods as a controller does when it creates them from a template (`docs/semantics.md`,
//! "Templates"), and finds the ReplicaSet of the next pod of a Deployment or Rollout: an existing one, or
//! a new one for a new template.

use serde_json::{Map, Value, json};

use super::admission::Admission;
use super::item::{Item, text};
use super::naming::ObjectName;
use super::workload::{NextRevision, workload_pod};
use super::{ManifestError, object};
use evenkeel_core::matching::names;
use evenkeel_core::matching::revisions::{CONTROLLER_REVISION, template_hash_label};
use evenkeel_core::proto::v1::{ClaimSource, Pod, StatefulSetSpec};

/// Stands for a part of a name, or a hash, that a cluster will generate later. Generated ones have
/// no vowels, so they differ from this.
pub(super) const NEXT: &str = "next";

/// The policy of a StatefulSet whose pods do not wait for each other.
const PARALLEL: &str = "Parallel";

/// The labels by which a StatefulSet tells its pods apart.
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Adds the fields that the controller of `workload` adds to its next pod.
pub(super) fn complete(pod: &mut Value, workload: &Value) {
    match text(workload, "kind") {
        "DaemonSet" => tolerate_node_conditions(pod),
        "StatefulSet" => {
            let revision = workload.pointer("/status/updateRevision");
            if let Some(revision) = revision.filter(|revision| **revision != "") {
                add_label(pod, CONTROLLER_REVISION, revision.clone());
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

/// Adds the claims of the pod after the last replica of a StatefulSet. A volume of the same name is
/// replaced.
fn claim_storage(pod: &mut Value, workload: &Value) {
    let replicas = workload.pointer("/spec/replicas").and_then(Value::as_u64);
    let next = u64::from(start(workload)).saturating_add(replicas.unwrap_or(1));
    for claim in claims(workload) {
        let name = text(&claim["metadata"], "name");
        let Some(volumes) = list_mut(pod, "volumes") else {
            return;
        };
        volumes.retain(|volume| text(volume, "name") != name);
        let pod_name = format!("{}-{next}", text(&workload["metadata"], "name"));
        volumes.push(json!({
            "name": name,
            "persistentVolumeClaim": { "claimName": format!("{name}-{pod_name}") },
            // The claim's template counts if the claim does not exist.
            "ephemeral": { "volumeClaimTemplate": { "spec": claim["spec"] } },
        }));
    }
}

fn claims(stateful_set: &Value) -> impl Iterator<Item = &Value> {
    let claims = stateful_set["spec"]["volumeClaimTemplates"].as_array();
    claims.into_iter().flatten()
}

/// The number up to which a StatefulSet makes pods of the revision before its update, and the name of
/// that revision (kube-controller-manager: `newVersionedStatefulSetPod`).
fn revision_before(stateful_set: &Value) -> Option<(u32, String)> {
    let (status, strategy) = (
        &stateful_set["status"],
        &stateful_set["spec"]["updateStrategy"],
    );
    let revision = text(status, "currentRevision");
    if revision.is_empty() || text(strategy, "type") == "OnDelete" {
        return None;
    }
    let count = match &strategy["rollingUpdate"] {
        Value::Null => &status["currentReplicas"],
        rolling => &rolling["partition"],
    };
    let count = count.as_u64().and_then(|it| u32::try_from(it).ok());
    let end = start(stateful_set).saturating_add(count.unwrap_or(0));
    Some((end, revision.to_owned()))
}

/// The number of the first pod of a StatefulSet.
fn start(stateful_set: &Value) -> u32 {
    let start = stateful_set.pointer("/spec/ordinals/start");
    let start = start.and_then(Value::as_u64);
    start.and_then(|it| u32::try_from(it).ok()).unwrap_or(0)
}

/// The pods of a StatefulSet, each of which has a number in its name, in its labels and in the names
/// of its claims.
#[derive(Debug, Clone, Default)]
pub struct NumberedPods {
    /// The name of the StatefulSet.
    pub stateful_set: String,
    /// The number of the first pod.
    pub start: u32,
    /// True if no pod waits until the one before it is ready.
    pub is_parallel: bool,
    /// The names of the volumes that are claims of each pod.
    pub claims: Vec<String>,
    /// In an update, the number up to which pods are made of the revision before, with its name.
    before: Option<(u32, String)>,
}

impl NumberedPods {
    /// The pods of a workload, if it is a StatefulSet.
    pub(super) fn of(workload: &Value) -> Option<Self> {
        let is_numbered = text(workload, "kind") == "StatefulSet";
        let claims = claims(workload).map(|claim| text(&claim["metadata"], "name").to_owned());
        is_numbered.then(|| Self {
            stateful_set: text(&workload["metadata"], "name").to_owned(),
            start: start(workload),
            is_parallel: text(&workload["spec"], "podManagementPolicy") == PARALLEL,
            claims: claims.collect(),
            before: revision_before(workload),
        })
    }

    /// The pods of a StatefulSet of a snapshot, which have these claims.
    pub fn stored(stateful_set: &str, spec: &StatefulSetSpec, claims: Vec<String>) -> Self {
        let start = spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start);
        Self {
            stateful_set: stateful_set.to_owned(),
            start: u32::try_from(start).unwrap_or(0),
            is_parallel: spec.pod_management_policy == PARALLEL,
            claims,
            before: None,
        }
    }

    /// The name of the pod with this number.
    pub fn name(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.stateful_set)
    }

    /// The pod with this number, from another pod of the StatefulSet or from its template.
    pub fn pod(&self, like: &Pod, ordinal: u32) -> Pod {
        let mut pod = like.clone();
        let name = self.name(ordinal);
        let spec = pod.spec.get_or_insert_default();
        let own = spec.volumes.iter_mut();
        for volume in own.filter(|volume| self.claims.contains(&volume.name)) {
            let claim_name = format!("{}-{name}", volume.name);
            let claim = Some(ClaimSource { claim_name });
            volume.persistent_volume_claim.clone_from(&claim);
            volume
                .volume_source
                .get_or_insert_default()
                .persistent_volume_claim = claim;
        }
        let metadata = pod.metadata.get_or_insert_default();
        for (label, value) in [
            (NAME_LABEL, name.clone()),
            (INDEX_LABEL, ordinal.to_string()),
        ] {
            metadata.labels.insert(label.to_owned(), value);
        }
        if let Some((end, revision)) = &self.before
            && ordinal < *end
        {
            let label = CONTROLLER_REVISION.to_owned();
            metadata.labels.insert(label, revision.clone());
        }
        metadata.name = name;
        pod
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

/// The ReplicaSets of one Deployment or Rollout.
#[derive(Debug, Default)]
pub(super) struct ReplicaSets(Vec<Item>);

impl ReplicaSets {
    /// Keeps an object if it is a ReplicaSet of the object called `name`, which has a kind and a
    /// namespace.
    pub(super) fn offer(&mut self, item: &Item, name: &ObjectName) {
        let metadata = &item.value["metadata"];
        let namespace = names::namespace_or_default(text(metadata, "namespace"));
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut owners = owners.map(|owner| (text(owner, "kind"), text(owner, "name")));
        if text(&item.value, "kind") == "ReplicaSet"
            && owners.any(|(kind, called)| name.is_of(kind, namespace, called))
        {
            self.0.push(item.clone());
        }
    }

    /// The ReplicaSets.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|item| &item.value)
    }

    /// The existing ReplicaSet of the next pod of a Deployment or Rollout. It has the same template,
    /// so its pod has the same hash and owner as the real next pod.
    ///
    /// Fields that no decision reads are not compared, so several ReplicaSets may match. Then the
    /// youngest that is not scaled down counts.
    pub(super) fn current(&self, owner: &Item) -> Option<Item> {
        let template = owner.value.pointer("/spec/template")?;
        let label = template_hash_label(text(&owner.value, "kind"))?;
        let same = self.0.iter().filter(|item| {
            let other = item.value.pointer("/spec/template").cloned();
            other.map(|it| without(it, label)).as_ref() == Some(template)
        });
        let current = same.max_by_key(|item| {
            let replicas = item.value.pointer("/spec/replicas").and_then(Value::as_i64);
            let created = text(&item.value["metadata"], "creationTimestamp");
            (replicas.unwrap_or(1) > 0, created)
        });
        current.cloned()
    }

    /// The next pod of a Deployment or Rollout, if no ReplicaSet has its template.
    pub(super) fn next(
        &self,
        owner: &Item,
        admission: &Admission,
    ) -> Result<NextRevision, ManifestError> {
        let replica_set = Item {
            value: new_replica_set(&owner.value),
            origin: owner.origin.clone(),
        };
        Ok(NextRevision {
            pod: workload_pod(replica_set.clone(), admission)?.pod,
            replica_set: object::change(replica_set)?,
            has_others: !self.0.is_empty(),
        })
    }
}

/// The ReplicaSet that a Deployment or Rollout creates for a new template. Its hash differs from that
/// of any other.
fn new_replica_set(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    let label = template_hash_label(text(owner, "kind")).unwrap_or_default();
    let mut replica_set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": text(metadata, "namespace"),
            "name": format!("{}-{NEXT}", text(metadata, "name")),
        },
        "spec": {
            "selector": owner["spec"]["selector"],
            "template": owner["spec"]["template"],
        },
    });
    for labels in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        if let Some(Value::Object(labels)) = replica_set.pointer_mut(labels) {
            labels.insert(label.to_owned(), NEXT.into());
        }
    }
    replica_set
}

/// A pod template without a label.
fn without(mut template: Value, label: &str) -> Value {
    let labels = template.pointer_mut("/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        Map::remove(labels, label);
    }
    template
}
