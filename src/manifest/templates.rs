//! All pods, workloads and placements of a file, each with where it was found.

use serde_json::Value;

use super::document::for_each_item_in;
use super::error::ManifestError;
use super::fleet::{PlacementPolicy, is_placement, placement};
use super::item::{self, describe};
use super::source::InputSource;
use super::workload::{pod_of, template_path};
use crate::proto::v1::Pod;

/// A pod template of a file, or a placement.
pub(crate) struct Template {
    /// Kind, namespace and name of the object.
    pub(crate) object: String,
    /// The object.
    pub(crate) value: Value,
    /// Number of its document in the file, from 1.
    pub(crate) document: u32,
    /// Path of the object in its document: empty, or that of a list's item.
    pub(crate) path: String,
    /// Path, in the object, of the part with the pod's `metadata` and `spec`:
    /// empty for a Pod.
    pub(crate) template: String,
    /// The pod, and the policy of a placement; or what keeps it from being
    /// read.
    pub(crate) pod: Result<(Pod, Option<PlacementPolicy>), ManifestError>,
}

impl Template {
    /// Kind of the object.
    pub(crate) fn kind(&self) -> &str {
        item::text(&self.value, "kind")
    }

    /// Path in the object, as it is in the file, of a field that is given
    /// relative to the pod.
    pub(crate) fn field(&self, of_pod: &str) -> String {
        if is_placement(self.kind()) {
            return match of_pod.strip_prefix("spec.") {
                Some(field) => format!("spec.policy.{field}"),
                None => of_pod.to_owned(),
            };
        }
        match &*self.template {
            "" => of_pod.to_owned(),
            template => format!("{template}.{of_pod}"),
        }
    }
}

/// Whether a controller made an object: what made it has the template.
fn is_made(value: &Value) -> bool {
    let owners = value.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// Hands every pod, workload and placement of `text`, which is that of `source`,
/// to `sink`. Objects that a controller made are left out, and those without a
/// template.
///
/// # Errors
/// What keeps the file from being read; templates before that were handed on.
pub(crate) fn for_each_template(
    source: &InputSource,
    text: &str,
    sink: &mut dyn FnMut(Template),
) -> Result<(), ManifestError> {
    for_each_item_in(source, text, &mut |item| {
        let kind = item::text(&item.value, "kind").to_owned();
        let template = template_path(&kind);
        let has_template = template.is_some_and(|path| item.value.pointer(path).is_some());
        if !has_template && !is_placement(&kind) || is_made(&item.value) {
            return Ok(());
        }
        let (document, number) = (item.origin.document, item.origin.item);
        let (name, value) = (describe(&item.value), item.value.clone());
        let pod = match template {
            Some(_) => pod_of(item, source).map(|pod| (pod, None)),
            None => placement(item, source).map(|(pod, policy)| (pod, Some(policy))),
        };
        let template = template.unwrap_or_default();
        sink(Template {
            object: name,
            value,
            document,
            path: match number {
                0 => String::new(),
                number => format!("items[{}]", number - 1),
            },
            template: template.trim_start_matches('/').replace('/', "."),
            pod,
        });
        Ok(())
    })
}
