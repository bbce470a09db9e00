//! The pod of an object: a Pod, or the pod that a workload would create. Pod templates are found by
//! the name of a known kind, and by their shape in other kinds.

use serde_json::{Value, json};

use super::admission::{Admission, NotCounted};
use super::controller::{self, NumberedPods};
use super::fleet::{PlacementPolicy, is_placement, not_counted, placement};
use super::item::{Item, describe, text};
use super::kinds::ApiResource;
use super::places::TemplatePath;
use super::pod_facts::other_scheduler;
use super::source::ManifestError;
use super::workload_ref::referred;
use evenkeel_core::matching::names;
use evenkeel_core::proto::v1::{Change, Dialect, LabelSelector, ObjectReference, Pod};

/// A pod, and the object that it comes from.
#[derive(Debug, Default)]
pub struct WorkloadPod {
    /// Kind, namespace and name of the object in the file.
    pub name: String,
    /// The pod. A pod from a template has no name.
    pub pod: Pod,
    /// The number of pods that the object wants; 1 if it does not say. `None` if only its pods are
    /// known.
    pub replicas: Option<i32>,
    /// The policy of a fleet's placement.
    pub policy: Option<PlacementPolicy>,
    /// The scheduler that the pod names, unless this is the default scheduler.
    pub scheduler: Option<String>,
    /// A reference to the object itself.
    pub object: ObjectReference,
    /// True if the object names no namespace, so that it is supposed to be in `default`.
    pub is_without_namespace: bool,
    /// The additions of admission to the pod that are unknown and not counted.
    pub missing: Vec<NotCounted>,
    /// The objects that default constraints read and that a file creates with a workload: the
    /// workload itself, and the Services of its namespace.
    pub beside: Vec<Change>,
    /// The pods of a StatefulSet. `pod` is then like each of them, but for their numbers.
    pub numbered: Option<NumberedPods>,
    /// The selector of the object, if it has one.
    pub selector: Option<LabelSelector>,
    /// The next pod of a Deployment whose template is new.
    pub next_revision: Option<NextRevision>,
}

/// The next pod of a Deployment that has to create a ReplicaSet first.
#[derive(Debug)]
pub struct NextRevision {
    pub pod: Pod,
    /// The ReplicaSet that owns the pod.
    pub replica_set: Change,
    /// True if ReplicaSets of the Deployment are known, but none with its template. False if none
    /// are known, which does not mean that there are none.
    pub has_others: bool,
}

impl WorkloadPod {
    /// An object whose pod is known from elsewhere.
    pub(super) fn of_object(value: &Value) -> Self {
        Self {
            name: describe(value),
            object: reference(value),
            replicas: Some(replicas(value)),
            is_without_namespace: text(&value["metadata"], "namespace").is_empty(),
            numbered: NumberedPods::of(value),
            selector: selector(value),
            ..Self::default()
        }
    }

    /// Returns whether each of the workload's pods has claims of its own, so that no two are alike.
    pub fn has_own_claims(&self) -> bool {
        let numbered = self.numbered.as_ref();
        numbered.is_some_and(|pods| !pods.claims.is_empty())
    }

    /// The dialect by which the pod is decided.
    pub fn dialect(&self) -> Dialect {
        match self.policy {
            Some(_) => Dialect::Fleet,
            None => Dialect::Unspecified,
        }
    }
}

/// The pod of an object that has one pod template, or is a placement.
///
/// A pod template becomes the pod that the cluster creates from it (`docs/semantics.md`,
/// "Templates"), with the objects that `admission` has. The pod gets its owner, so that the selector of
/// default constraints is deduced as for real pods. The pod of a Deployment is owned by the Deployment
/// itself, from which nothing is deduced, until its ReplicaSet is known. The pod of a CronJob gets no
/// owner, because a Job in between owns the real pods. An object of another kind is a workload if it has one pod
/// template.
pub(super) fn workload_pod(
    mut item: Item,
    admission: &Admission,
) -> Result<WorkloadPod, ManifestError> {
    let known = WorkloadPod::of_object(&item.value);
    let place = the_template(&item)?;
    let (mut missing, mut scheduler) = (Vec::new(), None);
    if is_placement(text(&item.value, "kind")) {
        missing = not_counted(&item.value);
    } else {
        item.value = pod_value(item.value, &place);
        scheduler = other_scheduler(&item.value["spec"]);
        // A pod with a phase comes from a cluster, so admission has completed it already.
        if text(&item.value["status"], "phase").is_empty() {
            missing = admission.complete(&mut item.value);
        }
    }
    let (pod, policy) = pod_of(item, &TemplatePath::default())?;
    Ok(WorkloadPod {
        pod,
        policy,
        missing,
        scheduler,
        ..known
    })
}

/// Kind, namespace and name of an object.
fn reference(value: &Value) -> ObjectReference {
    let metadata = &value["metadata"];
    ObjectReference {
        kind: text(value, "kind").to_owned(),
        namespace: names::namespace_or_default(text(metadata, "namespace")).to_owned(),
        name: text(metadata, "name").to_owned(),
        ..ObjectReference::default()
    }
}

/// Returns the selector of an object's pods: that of a ReplicationController is a map of labels.
pub(super) fn selector(value: &Value) -> Option<LabelSelector> {
    let selector = value.pointer("/spec/selector")?.clone();
    let selector = match text(value, "kind") {
        "ReplicationController" => json!({ "matchLabels": selector }),
        _ => selector,
    };
    let selector = serde_json::from_value(selector).ok();
    selector.filter(|selector| *selector != LabelSelector::default())
}

/// Returns the number of pods that an object wants: its replicas, or the parallelism of a Job.
fn replicas(value: &Value) -> i32 {
    let paths = [
        "/spec/replicas",
        "/spec/parallelism",
        "/spec/jobTemplate/spec/parallelism",
    ];
    let wanted = paths.iter().find_map(|path| value.pointer(path)?.as_i64());
    i32::try_from(wanted.unwrap_or(1)).unwrap_or(i32::MAX)
}

/// Returns the place of the only pod template of an item.
fn the_template(item: &Item) -> Result<TemplatePath, ManifestError> {
    let fault = |field: String, message: String| ManifestError::Field {
        place: item.origin.describe(),
        object: describe(&item.value),
        field,
        message,
    };
    if let Some((kind, name)) = referred(&item.value) {
        let message =
            format!("the {kind} {name} has the pod template, and is not there: put it there, too");
        return Err(fault("spec.workloadRef".to_owned(), message));
    }
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
            let field = TemplatePath::of(path).field;
            Err(fault(field, "no pod template there".to_owned()))
        }
    }
}

/// The pod of an item that has a template at `place`, or of a placement with its policy.
pub(super) fn pod_of(
    mut item: Item,
    place: &TemplatePath,
) -> Result<(Pod, Option<PlacementPolicy>), ManifestError> {
    if is_placement(text(&item.value, "kind")) {
        let (pod, policy) = placement(item)?;
        return Ok((pod, Some(policy)));
    }
    item.value = pod_value(item.value, place);
    let mut pod: Pod = item.decode()?;
    // A pod with a phase was scheduled by a cluster: it need not run on the same node again.
    if let (Some(status), Some(spec)) = (&pod.status, &mut pod.spec)
        && !status.phase.is_empty()
    {
        spec.node_name.clear();
    }
    Ok((pod, None))
}

/// The pod that an API server makes of the template at `place` of an object; `None` if it cannot be
/// read, or is no pod template.
pub(super) fn made_pod(mut item: Item, place: &TemplatePath, admission: &Admission) -> Option<Pod> {
    if place.custom.is_some() || is_placement(text(&item.value, "kind")) {
        return None;
    }
    item.value = pod_value(item.value, place);
    // A pod with a phase comes from a cluster, so admission has completed it already.
    if text(&item.value["status"], "phase").is_empty() {
        admission.complete(&mut item.value);
    }
    let made = pod_of(item, &TemplatePath::default());
    made.ok().map(|(pod, _)| pod)
}

/// The pod at `place` of an object, as JSON: the object itself, or the pod that its template
/// describes, with the additions of the object's controller.
fn pod_value(object: Value, place: &TemplatePath) -> Value {
    if let Some(custom) = &place.custom {
        return custom.pod(&object, place);
    }
    if place.pointer.is_empty() {
        return object;
    }
    let kind = text(&object, "kind");
    let template = object.pointer(&place.pointer).unwrap_or(&Value::Null);
    let metadata = &object["metadata"];
    let mut pod = json!({
        "kind": kind,
        "metadata": {
            "namespace": text(metadata, "namespace"),
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
        },
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    });
    if let "ReplicaSet" | "StatefulSet" | "ReplicationController" | "DaemonSet" | "Deployment" =
        kind
    {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": text(&object, "apiVersion"),
            "kind": kind,
            "name": text(metadata, "name"),
            "controller": true,
        }]);
    }
    controller::complete(&mut pod, &object);
    pod
}

/// Returns the path of the pod template in an object of a known kind: empty for a Pod or a
/// placement, `None` for a kind without pods.
pub(super) fn path_of_kind(kind: &str) -> Option<&'static str> {
    ApiResource::all()
        .find(|known| known.kind == kind)?
        .template
}

/// The places of all pod templates of an object, in the order of their paths. In other kinds, a
/// template is a field `template`, or one that ends with `Template`, that has a `spec` with
/// `containers`. A Rollout that refers to another workload gets its template from that.
pub(super) fn template_paths(object: &Value) -> Vec<TemplatePath> {
    if referred(object).is_some() {
        return vec![TemplatePath::of("/spec/template")];
    }
    let known = path_of_kind(text(object, "kind"));
    if let Some(path) = known.filter(|path| object.pointer(path).is_some()) {
        return vec![TemplatePath::of(path)];
    }
    let mut found = Vec::new();
    search(object, &TemplatePath::default(), &mut found);
    found
}

fn search(value: &Value, path: &TemplatePath, found: &mut Vec<TemplatePath>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_template = key == "template" || key.ends_with("Template");
                let containers = value.pointer("/spec/containers");
                if is_template && containers.is_some_and(Value::is_array) {
                    found.push(path.with_key(key));
                } else if value.is_object() || value.is_array() {
                    search(value, &path.with_key(key), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                search(item, &path.with_index(index), found);
            }
        }
        _ => {}
    }
}
