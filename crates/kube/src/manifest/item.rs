//! An object as it was read, before its kind is checked, without the fields that are never used.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::source::{InputSource, ManifestError};
use evenkeel_core::matching::storage;
use evenkeel_core::of_kind;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::snapshot::ObjectKind;

/// API version of the items that `snapshot save` adds to a list.
pub(super) const OWN_API_VERSION: &str = "evenkeel/v1";
/// Kind under which `snapshot save` writes default constraints.
pub(super) const DEFAULT_CONSTRAINTS_KIND: &str = "DefaultConstraints";

/// The place where an object was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectOrigin {
    /// The file, standard input or cluster.
    pub(super) source: Arc<InputSource>,
    /// Number of the document in the source, from 1.
    pub(super) document: u32,
    /// Number of the item in the document's list, from 1; 0 when the document
    /// is the object itself.
    pub(super) item: u32,
}

impl ObjectOrigin {
    /// The origin of an object in a document that is no list.
    pub(super) fn whole(source: &Arc<InputSource>, document: u32) -> Self {
        Self {
            source: Arc::clone(source),
            document,
            item: 0,
        }
    }

    /// The path of the object in its document: empty, or `items[N]`.
    pub(super) fn path(&self) -> String {
        match self.item {
            0 => String::new(),
            number => format!("items[{}]", number - 1),
        }
    }

    /// The place for a message, e.g. `cluster.yaml, document 2, item 17`.
    pub(super) fn describe(&self) -> String {
        let mut text = self.source.to_string();
        if let InputSource::Cluster(_) = *self.source {
            return text;
        }
        if self.document > 1 || self.item == 0 {
            text.push_str(&format!(", document {}", self.document));
        }
        if self.item > 0 {
            text.push_str(&format!(", item {}", self.item));
        }
        text
    }
}

/// An object of a source, before its kind is checked.
#[derive(Debug, Clone)]
pub struct Item {
    pub(super) value: Value,
    pub(super) origin: ObjectOrigin,
}

impl Item {
    /// An object of an API server, without the fields that are never used.
    pub fn listed(value: Value, source: &Arc<InputSource>) -> Self {
        Self::of(value, ObjectOrigin::whole(source, 0), false)
    }

    /// An object that was read, without the fields that are never used unless it is to be complete.
    pub(super) fn of(mut value: Value, origin: ObjectOrigin, is_complete: bool) -> Self {
        prune(&mut value, is_complete);
        Self { value, origin }
    }

    /// A string field of the object's metadata; empty if it is missing.
    pub fn metadata(&self, field: &str) -> &str {
        text(&self.value["metadata"], field)
    }

    /// Decodes the object as one of `kind`.
    ///
    /// # Errors
    /// The field that is wrong, and the reason.
    pub fn object(self, kind: ObjectKind) -> Result<Object, ManifestError> {
        Ok(of_kind!(kind, self.decode()?))
    }

    /// Decodes the object as `T`.
    pub(super) fn decode<T: DeserializeOwned>(self) -> Result<T, ManifestError> {
        let object = describe(&self.value);
        serde_path_to_error::deserialize(self.value).map_err(|error| ManifestError::Field {
            place: self.origin.describe(),
            object,
            field: error.path().to_string(),
            message: with_hint(error.inner().to_string()),
        })
    }
}

/// Adds a hint about the most common mistake in YAML, and says "an object" for the name of a message.
fn with_hint(message: String) -> String {
    if let Some((found, _)) = message.split_once("expected struct evenkeel.") {
        return format!("{found}expected an object");
    }
    let is_plain = ["boolean", "integer", "floating point"]
        .iter()
        .any(|kind| message.starts_with(&format!("invalid type: {kind}")));
    match is_plain && message.ends_with("expected a string") {
        true => format!("{message}: put it in quotes"),
        false => message,
    }
}

/// A string field; empty if it is missing.
pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Kind, namespace and name of an object.
pub(super) fn describe(value: &Value) -> String {
    let metadata = &value["metadata"];
    full_name(
        text(value, "kind"),
        text(metadata, "namespace"),
        text(metadata, "name"),
    )
}

/// Kind and name, e.g. `Pod default/web-1` or `Node node-a`.
pub fn full_name(kind: &str, namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { "(no name)" } else { name };
    match (kind, namespace) {
        ("Node" | "MemberCluster" | "ClusterResourcePlacement" | DEFAULT_CONSTRAINTS_KIND, _) => {
            format!("{kind} {name}")
        }
        (_, "") => format!("{kind} default/{name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}

/// Fields that no decision reads but that make up most bytes of a cluster. They are dropped
/// if their value is a list or a map. Plain values are kept, because a label may have any
/// of these names.
const BULKY: [&str; 15] = [
    "args",
    "command",
    "data",
    "env",
    "envFrom",
    "images",
    "lastState",
    "lifecycle",
    "livenessProbe",
    "managedFields",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "state",
    "volumesAttached",
];

/// The annotations that are kept: those that the controllers of ReplicaSets, Deployments and Rollouts read,
/// those that keep a pod where it is, and those of claims and volumes.
const KEPT_ANNOTATIONS: [&str; 11] = [
    DELETION_COST,
    MAX_REPLICAS,
    SCALE_DOWN_DEADLINE,
    ROLLOUT_REVISION,
    STAYING[0].0,
    STAYING[1].0,
    STAYING[2].0,
    SCALE_DOWN_DISABLED,
    storage::BIND_COMPLETED,
    storage::SELECTED_NODE,
    storage::BETA_CLASS,
];

/// The annotation with the cost of deleting a pod.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The annotation that keeps a node from going; so does [`DO_NOT_DISRUPT`].
pub(super) const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// The annotation that says whether a pod may be evicted.
pub(super) const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The annotation that keeps pods and nodes where they are.
pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// The annotation of a ReplicaSet with the most pods that its Deployment might have.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The annotation of a ReplicaSet that its Rollout keeps until this time.
pub(super) const SCALE_DOWN_DEADLINE: &str = "scale-down-deadline";

/// The annotation of a ReplicaSet with the number of its Rollout's revision.
pub(super) const ROLLOUT_REVISION: &str = "rollout.argoproj.io/revision";

/// The annotations that keep a pod where it is, each with its value; empty means any value.
pub(super) const STAYING: [(&str, &str); 3] = [
    (SAFE_TO_EVICT, "false"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""),
    (DO_NOT_DISRUPT, "true"),
];

/// Leaves out fields that are null, because Kubernetes takes them as unset, and unless all are wanted
/// those that are never used.
pub(super) fn prune(value: &mut Value, is_complete: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|it| prune(it, is_complete)),
        Value::Object(fields) => fields.retain(|key, value| {
            let is_bulky = BULKY.contains(&key.as_str()) && (value.is_object() || value.is_array());
            if is_bulky && !is_complete {
                return false;
            }
            if key == "annotations"
                && !is_complete
                && let Value::Object(annotations) = value
            {
                annotations.retain(|key, _| KEPT_ANNOTATIONS.contains(&key.as_str()));
                return !annotations.is_empty();
            }
            prune(value, is_complete);
            !value.is_null()
        }),
        _ => {}
    }
}
