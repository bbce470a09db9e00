//! All pods, workloads and placements of a file, with their places.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;

use super::admission::Admission;
use super::document::{Positions, for_each_whole_item};
use super::fleet::{PlacementPolicy, is_placement};
use super::item::{Item, ObjectOrigin, describe, text};
use super::places::{CONSTRAINTS, CustomResources, TemplatePath, Unsaid};
use super::source::{InputSource, ManifestError, Position};
use super::workload::{WorkloadPod, made_pod, path_of_kind, pod_of, template_paths};
use super::workload_ref::{is_only_template, referred, resolved, template_of};
use evenkeel_core::proto::v1::Pod;

/// An object with pod templates, or a placement.
pub struct TemplateObject {
    /// Kind, namespace and name.
    pub name: String,
    /// The object.
    pub value: Value,
    /// The path of the object in its document: empty, or `items[N]`.
    pub path: String,
    /// The places of the object's pod templates. A Pod and a placement have one place with an empty
    /// path.
    pub templates: Vec<TemplatePath>,
    origin: ObjectOrigin,
}

/// A pod template of an object, or a placement.
pub struct Template {
    /// The object.
    pub object: Rc<TemplateObject>,
    /// The place of the pod template in the object; empty for a Pod and a placement.
    pub place: TemplatePath,
}

/// The pod of a template, with some of its constraints.
pub struct ReadTemplate {
    /// The pod.
    pub pod: Pod,
    /// The policy of a placement.
    pub policy: Option<PlacementPolicy>,
    /// The index in the file of each constraint of the pod.
    pub kept: Vec<usize>,
}

/// The reason why a template cannot be read.
pub struct UnreadTemplate {
    /// The field that is wrong. Its constraint has an index in `kept`.
    pub error: ManifestError,
    /// The index in the file of each constraint that was read.
    pub kept: Vec<usize>,
}

impl TemplateObject {
    /// The object's kind.
    pub fn kind(&self) -> &str {
        text(&self.value, "kind")
    }

    /// The kind and name of the workload that has the template of a Rollout.
    pub fn template_of(&self) -> Option<(&str, &str)> {
        template_of(&self.value)
    }

    /// The object's namespace; empty when it has none.
    pub fn namespace(&self) -> &str {
        text(&self.value["metadata"], "namespace")
    }

    /// The object's name, without kind and namespace.
    pub fn own_name(&self) -> &str {
        text(&self.value["metadata"], "name")
    }

    /// The position of a field of the object, by its path in the document.
    pub fn position(&self, positions: &Positions, path: &str) -> Option<Position> {
        positions.find(&self.origin, path)
    }

    /// The object's own labels, not those of its pods.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = self.value["metadata"]["labels"].as_object();
        let labels = labels.into_iter().flatten();
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        labels.filter_map(text).collect()
    }

    /// Returns whether the object is a placement of KubeFleet.
    pub fn is_placement(&self) -> bool {
        is_placement(self.kind())
    }

    /// Returns whether the kind is one of Kubernetes' own, for which an API server refuses unknown
    /// fields.
    pub fn is_built_in(&self) -> bool {
        let version = text(&self.value, "apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        path_of_kind(self.kind()).is_some() && !self.is_placement() && !group.contains('.')
    }

    /// The path of the field that contains the constraints of a template.
    pub fn spec_of(&self, template: &TemplatePath) -> String {
        self.spec(template).field
    }

    /// The field `spec` of a template, or where the constraints are.
    fn spec(&self, template: &TemplatePath) -> TemplatePath {
        match (self.is_placement(), &template.custom) {
            (true, _) => TemplatePath::of("/spec/policy"),
            (false, Some(_)) => template.clone(),
            (false, None) => template.with_key("spec"),
        }
    }
}

impl Template {
    /// The workload of the template, with its pod as it was `read`, but completed by `admission`.
    pub fn workload(&self, read: &ReadTemplate, admission: &Admission) -> WorkloadPod {
        let object = &self.object;
        let mut pod = read.pod.clone();
        let item = Item {
            value: object.value.clone(),
            origin: object.origin.clone(),
        };
        let made = made_pod(item, &self.place, admission);
        if let Some(made) = made {
            let constraints = pod
                .spec
                .take()
                .unwrap_or_default()
                .topology_spread_constraints;
            pod = made;
            pod.spec.get_or_insert_default().topology_spread_constraints = constraints;
        }
        WorkloadPod {
            pod,
            policy: read.policy.clone(),
            ..WorkloadPod::of_object(&object.value)
        }
    }

    /// The path in the object, as in the file, of a field whose path in the pod is `of_pod`.
    pub fn field(&self, of_pod: &str) -> String {
        let place = &self.place;
        if let Some(field) = rest_after(of_pod, "spec") {
            return format!("{}{field}", self.object.spec_of(place));
        }
        if let (Some(custom), Some(field)) = (&place.custom, rest_after(of_pod, "metadata.labels"))
        {
            let labels = custom.labels().map_or("metadata.labels", |it| &it.field);
            return format!("{labels}{field}");
        }
        match &*place.field {
            path if !path.is_empty() && place.custom.is_none() => format!("{path}.{of_pod}"),
            _ => of_pod.to_owned(),
        }
    }

    /// The constraints as they are in the file, of any JSON type.
    pub fn written_constraints(&self) -> Option<&Value> {
        let spec = self.object.spec(&self.place);
        self.object.value.pointer(&spec.pointer)?.get(CONSTRAINTS)
    }

    /// The metadata of the pod as in the file; null for a placement and for a custom resource.
    pub fn written_metadata(&self) -> &Value {
        let pointer = format!("{}/metadata", self.place.pointer);
        let metadata = self.object.value.pointer(&pointer);
        let metadata = metadata.filter(|_| self.place.custom.is_none());
        metadata.unwrap_or(&Value::Null)
    }

    /// What is read of the object for this template, in its parts.
    pub fn read_parts(&self) -> Vec<&Value> {
        let object = &self.object.value;
        if self.object.is_built_in() || self.object.is_placement() {
            return vec![object];
        }
        let metadata = &object["metadata"];
        let own = [&metadata["name"], &metadata["namespace"]];
        match &self.place.custom {
            None => [object.pointer(&self.place.pointer)]
                .into_iter()
                .flatten()
                .chain(own)
                .collect(),
            Some(custom) => {
                let labels = custom.labels().and_then(|it| object.pointer(&it.pointer));
                let read = [self.written_constraints(), labels];
                read.into_iter().flatten().chain(own).collect()
            }
        }
    }

    /// Returns whether the selector of a constraint is made from a field of this name.
    pub fn selects_by(&self, field: &str) -> bool {
        let custom = self.place.custom.as_ref();
        custom.is_some_and(|custom| custom.selects_by(field))
    }

    /// Returns whether the pods are those of a custom resource that is known by the table.
    pub fn is_custom(&self) -> bool {
        self.place.custom.is_some()
    }

    /// What the object does not say of its pods, because something else may add it.
    pub fn unsaid(&self) -> Unsaid {
        match &self.place.custom {
            Some(custom) => custom.unsaid(),
            None => self.unsaid_by_patch(),
        }
    }

    /// What an object leaves to its base if it is a patch, e.g. of Kustomize: it lacks what an API
    /// server requires, or says how to merge it.
    fn unsaid_by_patch(&self) -> Unsaid {
        let object = &self.object;
        let in_cluster = matches!(*object.origin.source, InputSource::Cluster(_));
        if object.is_placement() || in_cluster {
            return Unsaid::default();
        }
        let spec = object.value.pointer(&object.spec(&self.place).pointer);
        let containers = spec.and_then(|spec| spec["containers"].as_array());
        let is_selecting = matches!(
            object.kind(),
            "CloneSet" | "DaemonSet" | "Deployment" | "ReplicaSet" | "Rollout" | "StatefulSet"
        );
        let lacks = containers.is_none_or(Vec::is_empty)
            || is_selecting && object.value["spec"]["selector"].is_null();
        // Examples of pods often leave their containers out.
        let lacks = lacks && object.kind() != "Pod";
        let labels = self.written_metadata()["labels"].as_object();
        let is_patch =
            has_directive(&object.value) || lacks && labels.is_none_or(|labels| labels.is_empty());
        Unsaid {
            labels: lacks || is_patch,
            fields: is_patch,
            scheduling: is_patch,
        }
    }

    /// Reads the pod without the constraints whose indices are in `broken`. In a patch, and where a
    /// chart fills in what is missing, a constraint that lacks fields is completed, and one without
    /// a topology key is left out.
    pub fn read(&self, broken: &BTreeSet<usize>) -> Result<ReadTemplate, UnreadTemplate> {
        let object = &self.object;
        let mut value = object.value.clone();
        let mut kept = Vec::new();
        let spec = value.pointer_mut(&object.spec(&self.place).pointer);
        let list = spec.and_then(|spec| spec.get_mut(CONSTRAINTS));
        if let Some(Value::Array(list)) = list {
            let fills = self.unsaid().fields;
            let all = std::mem::take(list).into_iter().enumerate();
            for (index, mut constraint) in all.filter(|(index, _)| !broken.contains(index)) {
                if !fills || fill_in(&mut constraint) {
                    kept.push(index);
                    list.push(constraint);
                }
            }
        }
        let origin = object.origin.clone();
        match pod_of(Item { value, origin }, &self.place) {
            Ok((pod, policy)) => Ok(ReadTemplate { pod, policy, kept }),
            Err(error) => Err(UnreadTemplate { error, kept }),
        }
    }
}

/// The rest of a path after the field `start`, from the dot or bracket on.
fn rest_after<'p>(path: &'p str, start: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(start)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

/// Returns whether an object says how to merge it, as strategic patches do.
fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            key == "$patch" || key.starts_with("$setElementOrder/") || has_directive(value)
        }),
        Value::Array(items) => items.iter().any(has_directive),
        _ => false,
    }
}

/// Fills in the fields that a constraint lacks, so that it counts as a soft one. Returns false if
/// it is no constraint.
fn fill_in(constraint: &mut Value) -> bool {
    let Value::Object(fields) = constraint else {
        return true;
    };
    if fields.keys().any(|key| key.starts_with('$')) || !fields.contains_key("topologyKey") {
        return false;
    }
    fields.entry("maxSkew").or_insert_with(|| 1.into());
    let soft = || "ScheduleAnyway".into();
    fields.entry("whenUnsatisfiable").or_insert_with(soft);
    true
}

/// Returns an error if an object is a Kustomization with patches.
pub(super) fn unapplied(item: &Item) -> Option<ManifestError> {
    let version = text(&item.value, "apiVersion");
    let fields = ["patches", "patchesJson6902", "patchesStrategicMerge"];
    let has_patches = fields.iter().any(|it| item.value[it].is_array());
    let is_kustomization = version.starts_with("kustomize.config.k8s.io/");
    (has_patches && is_kustomization).then(|| ManifestError::Patches(item.origin.describe()))
}

/// Returns whether a controller created an object, so that its owner has the template.
fn is_made(value: &Value) -> bool {
    let owners = value["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true)
}

/// Every pod, workload and placement in the `text` of `source`, and why documents cannot be read. Objects
/// that a controller created, and objects without a template, are left out.
pub fn templates_in(
    source: &InputSource,
    text: &str,
    custom: &CustomResources,
) -> (Vec<Template>, Vec<ManifestError>) {
    let mut templates = Vec::new();
    let mut unapplied_patches = Vec::new();
    let mut faults = for_each_whole_item(text, source, &mut |item| {
        unapplied_patches.extend(unapplied(&item));
        if !is_made(&item.value) {
            templates.extend(templates_of(item, custom));
        }
        Ok(())
    });
    faults.extend(unapplied_patches);
    (templates, faults)
}

/// Gives Rollouts the templates of the workloads that they refer to, among the templates of several
/// texts. Such a Rollout comes to the text of the workload, and takes its place if that has no pods.
pub fn resolve_references(texts: &mut [Vec<Template>]) {
    let all = texts.iter().flatten().map(|it| Rc::clone(&it.object));
    let rollouts: Vec<_> = all.filter(|it| referred(&it.value).is_some()).collect();
    let mut done = BTreeSet::new();
    for templates in texts.iter_mut() {
        let mut made = Vec::new();
        templates.retain(|template| {
            let other = &template.object;
            let before = made.len();
            made.extend(rollouts.iter().filter_map(|rollout| {
                let value = resolved(&rollout.value, &other.value)?;
                done.insert(rollout.name.clone());
                let object = Rc::new(TemplateObject {
                    name: rollout.name.clone(),
                    path: other.path.clone(),
                    templates: rollout.templates.clone(),
                    origin: other.origin.clone(),
                    value,
                });
                let place = object.templates.first()?.clone();
                Some(Template { object, place })
            }));
            made.len() == before || !is_only_template(&other.value)
        });
        templates.extend(made);
    }
    for templates in texts {
        let is_done =
            |it: &TemplateObject| referred(&it.value).is_some() && done.contains(&it.name);
        templates.retain(|template| !is_done(&template.object));
    }
}

/// The templates of an object: those of a custom resource that is known by the table, else its pod
/// templates.
pub(super) fn templates_of(
    item: Item,
    custom: &CustomResources,
) -> impl Iterator<Item = Template> + use<> {
    let Item { mut value, origin } = item;
    let mut templates = custom.places(&mut value);
    if templates.is_empty() {
        templates = template_paths(&value);
    }
    let object = Rc::new(TemplateObject {
        name: describe(&value),
        path: origin.path(),
        value,
        templates: templates.clone(),
        origin,
    });
    let template = move |place| Template {
        object: Rc::clone(&object),
        place,
    };
    templates.into_iter().map(template)
}
