//! All pods, workloads and placements of a file, each with the place where it was found.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::document::for_each_item_of;
use super::error::ManifestError;
use super::fleet::{PlacementPolicy, is_placement};
use super::item::{Item, describe, text};
use super::part::ObjectText;
use super::source::InputSource;
use super::workload::{TemplatePath, path_of_kind, pod_of, template_paths};
use crate::proto::v1::Pod;

/// An object with pod templates, or a placement.
pub(crate) struct TemplateObject {
    /// Kind, namespace and name.
    pub(crate) name: String,
    /// The object.
    pub(crate) value: Value,
    /// Path of the object in its document: empty, or that of a list's item.
    pub(crate) path: String,
    /// The places of its pod templates; for a Pod and a placement it is one, with an empty path.
    pub(crate) templates: Vec<TemplatePath>,
}

/// A pod template of an object, or a placement.
pub(crate) struct Template {
    /// The object.
    pub(crate) object: Rc<TemplateObject>,
    /// The path of the part with the pod's `metadata` and `spec` in the object: empty for a Pod.
    pub(crate) place: TemplatePath,
    /// The pod, and the policy of a placement; or the reason why it cannot be read.
    pub(crate) pod: Result<(Pod, Option<PlacementPolicy>), ManifestError>,
}

impl TemplateObject {
    /// The object's kind.
    pub(crate) fn kind(&self) -> &str {
        text(&self.value, "kind")
    }

    /// The object's namespace; empty when it has none.
    pub(crate) fn namespace(&self) -> &str {
        text(&self.value["metadata"], "namespace")
    }

    /// The object's name, without kind and namespace.
    pub(crate) fn own_name(&self) -> &str {
        text(&self.value["metadata"], "name")
    }

    /// The object's own labels, not those of its pods.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let labels = self.value["metadata"]["labels"].as_object();
        let labels = labels.into_iter().flatten();
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        labels.filter_map(text).collect()
    }

    /// Returns whether the object is a placement of KubeFleet.
    pub(crate) fn is_placement(&self) -> bool {
        is_placement(self.kind())
    }

    /// Returns whether Kubernetes itself defines the kind, and so refuses unknown fields.
    pub(crate) fn is_built_in(&self) -> bool {
        let version = text(&self.value, "apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        path_of_kind(self.kind()).is_some() && !self.is_placement() && !group.contains('.')
    }

    /// Path of the part that has the constraints of a template.
    pub(crate) fn spec_of(&self, template: &TemplatePath) -> String {
        match (self.is_placement(), &*template.field) {
            (true, _) => "spec.policy".to_owned(),
            (false, "") => "spec".to_owned(),
            (false, path) => format!("{path}.spec"),
        }
    }
}

impl Template {
    /// Path in the object, as it is in the file, of a field with a path relative to the pod.
    pub(crate) fn field(&self, of_pod: &str) -> String {
        match (of_pod.strip_prefix("spec"), &*self.place.field) {
            (Some(field), _) if field.is_empty() || field.starts_with(['.', '[']) => {
                format!("{}{field}", self.object.spec_of(&self.place))
            }
            (_, "") => of_pod.to_owned(),
            (_, path) => format!("{path}.{of_pod}"),
        }
    }

    /// The constraints as they are in the file, of whatever type.
    pub(crate) fn written_constraints(&self) -> Option<&Value> {
        let pointer = match self.object.is_placement() {
            true => "/spec/policy/topologySpreadConstraints".to_owned(),
            false => format!("{}/spec/topologySpreadConstraints", self.place.pointer),
        };
        self.object.value.pointer(&pointer)
    }

    /// The metadata of the pod as in the file; null for a placement.
    pub(crate) fn written_metadata(&self) -> &Value {
        let pointer = format!("{}/metadata", self.place.pointer);
        self.object.value.pointer(&pointer).unwrap_or(&Value::Null)
    }
}

/// Returns whether a controller made an object, so that the template is in the controller's object.
fn is_made(value: &Value) -> bool {
    let owners = value["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true)
}

impl ObjectText<'_> {
    /// Every pod, workload and placement in this part of `source`. Objects that a controller made
    /// are left out, and those without a template.
    ///
    /// # Errors
    /// The reason why the part cannot be read, with the templates before that.
    pub(crate) fn templates(
        &self,
        source: &InputSource,
    ) -> (Vec<Template>, Result<(), ManifestError>) {
        let mut templates = Vec::new();
        let read = for_each_item_of(self, source, &mut |item| {
            if !is_made(&item.value) {
                templates.extend(templates_of(item, source));
            }
            Ok(())
        });
        (templates, read)
    }
}

fn templates_of(item: Item, source: &InputSource) -> impl Iterator<Item = Template> {
    let Item { value, origin } = item;
    let templates = template_paths(&value);
    let object = Rc::new(TemplateObject {
        name: describe(&value),
        path: origin.path(),
        value,
        templates: templates.clone(),
    });
    templates.into_iter().map(move |place| {
        let value = object.value.clone();
        Template {
            object: Rc::clone(&object),
            pod: pod_of(Item { value, origin }, &place, source),
            place,
        }
    })
}
