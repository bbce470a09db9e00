//! All pods, workloads and placements of a file, with their places.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::document::for_each_item_of;
use super::error::ManifestError;
use super::fleet::{PlacementPolicy, is_placement};
use super::item::{Item, describe, text};
use super::parts::ObjectText;
use super::source::InputSource;
use super::workload::{TemplatePath, path_of_kind, pod_of, template_paths};
use crate::proto::v1::Pod;

/// An object with pod templates, or a placement.
pub(crate) struct TemplateObject {
    /// Kind, namespace and name.
    pub(crate) name: String,
    /// The object.
    pub(crate) value: Value,
    /// The path of the object in its document: empty, or `items[N]`.
    pub(crate) path: String,
    /// The places of the object's pod templates. A Pod and a placement have one place with an empty
    /// path.
    pub(crate) templates: Vec<TemplatePath>,
}

/// A pod template of an object, or a placement.
pub(crate) struct Template {
    pub(crate) object: Rc<TemplateObject>,
    /// The place of the pod template in the object; empty for a Pod and a placement.
    pub(crate) place: TemplatePath,
    /// The pod, with the policy of a placement; or the reason why it cannot be read.
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

    /// Returns whether the kind is one of Kubernetes' own, for which an API server refuses unknown
    /// fields.
    pub(crate) fn is_built_in(&self) -> bool {
        let version = text(&self.value, "apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        path_of_kind(self.kind()).is_some() && !self.is_placement() && !group.contains('.')
    }

    /// The path of the field that contains the constraints of a template.
    pub(crate) fn spec_of(&self, template: &TemplatePath) -> String {
        match (self.is_placement(), &*template.field) {
            (true, _) => "spec.policy".to_owned(),
            (false, "") => "spec".to_owned(),
            (false, path) => format!("{path}.spec"),
        }
    }
}

impl Template {
    /// The path in the object, as in the file, of a field whose path in the pod is `of_pod`.
    pub(crate) fn field(&self, of_pod: &str) -> String {
        match (of_pod.strip_prefix("spec"), &*self.place.field) {
            (Some(field), _) if field.is_empty() || field.starts_with(['.', '[']) => {
                format!("{}{field}", self.object.spec_of(&self.place))
            }
            (_, "") => of_pod.to_owned(),
            (_, path) => format!("{path}.{of_pod}"),
        }
    }

    /// The constraints as they are in the file, of any JSON type.
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

/// Returns whether a controller created an object, so that its owner has the template.
fn is_made(value: &Value) -> bool {
    let owners = value["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true)
}

impl ObjectText<'_> {
    /// Every pod, workload and placement in this part of `source`. Objects that a controller
    /// created, and objects without a template, are left out.
    ///
    /// # Errors
    /// The reason why the part cannot be read, with the templates before the fault.
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
