//! Decoding the objects that decisions read.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::document::Item;
use super::placement::{binding, cluster, is_binding, is_cluster};
use super::saved::{self, Saved};
use super::{Error, Source};
use crate::proto::v1::change::Object;
use crate::proto::v1::{
    DefaultConstraints, ExportSummary, ObjectMeta, ObjectReference, UpdateSnapshotRequest,
};

/// What an object of a file is to a snapshot.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(super) enum Decoded {
    /// Part of its state.
    Object(Object),
    /// Its default constraints.
    DefaultConstraints(DefaultConstraints),
    /// Where a saved snapshot came from: what follows is its content.
    Saved(Saved),
    /// What a saved snapshot held: it ends here.
    SavedEnd(ExportSummary),
    /// Nothing: an object of this kind.
    Other(String),
}

/// API version under which `snapshot save` writes default constraints.
pub(super) const OWN_API_VERSION: &str = "evenkeel/v1";
/// Kind under which `snapshot save` writes default constraints.
pub(super) const DEFAULT_CONSTRAINTS_KIND: &str = "DefaultConstraints";

/// Decodes an object by its kind and API version.
pub(super) fn decode(item: Item, source: &Source) -> Result<Decoded, Error> {
    let kind = text(&item.value, "kind");
    let version = text(&item.value, "apiVersion");
    if is_cluster(kind, version) {
        return Ok(Decoded::Object(Object::Node(cluster(item, source)?)));
    }
    if is_binding(kind, version) {
        let kind = qualified_kind(kind, version);
        let pod = binding(item, source)?;
        return Ok(pod.map_or(Decoded::Other(kind), |pod| {
            Decoded::Object(Object::Pod(pod))
        }));
    }
    if version == OWN_API_VERSION {
        if let Some(saved) = Saved::of_item(&item.value) {
            return Ok(Decoded::Saved(saved));
        }
        if let Some(summary) = saved::summary_of_item(&item.value) {
            return Ok(Decoded::SavedEnd(summary));
        }
    }
    let known = match kind {
        "Node" | "Pod" | "Service" | "ReplicationController" => ["v1", ""].contains(&version),
        "ReplicaSet" | "StatefulSet" => ["apps/v1", ""].contains(&version),
        DEFAULT_CONSTRAINTS_KIND => version == OWN_API_VERSION,
        _ => false,
    };
    if !known {
        return Ok(Decoded::Other(qualified_kind(kind, version)));
    }
    Ok(match kind {
        "Node" => Decoded::Object(Object::Node(typed(item, source)?)),
        "Pod" => Decoded::Object(Object::Pod(typed(item, source)?)),
        "Service" => Decoded::Object(Object::Service(typed(item, source)?)),
        "ReplicaSet" => Decoded::Object(Object::ReplicaSet(typed(item, source)?)),
        "StatefulSet" => Decoded::Object(Object::StatefulSet(typed(item, source)?)),
        "ReplicationController" => {
            Decoded::Object(Object::ReplicationController(typed(item, source)?))
        }
        _ => Decoded::DefaultConstraints(typed(item, source)?),
    })
}

/// Decodes an object as `T`.
pub(super) fn typed<T: DeserializeOwned>(item: Item, source: &Source) -> Result<T, Error> {
    let described = describe(&item.value);
    serde_path_to_error::deserialize(item.value).map_err(|error| Error::Field {
        place: item.origin.describe(source),
        object: described,
        field: error.path().to_string(),
        message: with_hint(error.inner().to_string()),
    })
}

/// Adds what to do about the commonest slip of YAML.
fn with_hint(message: String) -> String {
    let is_plain = ["boolean", "integer", "floating point"]
        .iter()
        .any(|kind| message.starts_with(&format!("invalid type: {kind}")));
    match is_plain && message.ends_with("expected a string") {
        true => format!("{message}: put it in quotes"),
        false => message,
    }
}

/// Kind and group, as `kubectl get` takes them: `Deployment.apps`.
fn qualified_kind(kind: &str, version: &str) -> String {
    match version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind.to_owned(),
    }
}

/// Kind, namespace and name of an object as read.
pub(super) fn describe(value: &Value) -> String {
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    full_name(
        text(value, "kind"),
        text(metadata, "namespace"),
        text(metadata, "name"),
    )
}

/// A field that is a string, else "".
pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// E.g. `Pod default/web-1` or `Node node-a`.
fn full_name(kind: &str, namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { "(no name)" } else { name };
    match (kind, namespace) {
        ("Node" | "MemberCluster" | "ClusterResourcePlacement" | DEFAULT_CONSTRAINTS_KIND, _) => {
            format!("{kind} {name}")
        }
        (_, "") => format!("{kind} default/{name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}

/// The kind of an object; of a deletion, `delete`.
pub(crate) fn kind_of(object: &Object) -> &'static str {
    match object {
        Object::Node(_) => "Node",
        Object::Pod(_) => "Pod",
        Object::Service(_) => "Service",
        Object::ReplicaSet(_) => "ReplicaSet",
        Object::StatefulSet(_) => "StatefulSet",
        Object::ReplicationController(_) => "ReplicationController",
        Object::Delete(_) => "delete",
    }
}

/// The objects and default constraints of an update as items of a Kubernetes
/// list, which [`super::read_objects`] reads back. Deletions are left out.
pub(crate) fn items_of(update: &UpdateSnapshotRequest) -> serde_json::Result<Vec<Value>> {
    let typed = |value: Value, version: &str, kind: &str| {
        let mut fields = json!({ "apiVersion": version, "kind": kind });
        if let (Value::Object(fields), Value::Object(more)) = (&mut fields, value) {
            fields.extend(more);
        }
        fields
    };
    let mut items = Vec::with_capacity(update.changes.len() + 1);
    if let Some(constraints) = &update.default_constraints {
        let value = serde_json::to_value(constraints)?;
        items.push(typed(value, OWN_API_VERSION, DEFAULT_CONSTRAINTS_KIND));
    }
    for object in update
        .changes
        .iter()
        .filter_map(|change| change.object.as_ref())
    {
        let (version, value) = match object {
            Object::Node(node) => ("v1", serde_json::to_value(node)?),
            Object::Pod(pod) => ("v1", serde_json::to_value(pod)?),
            Object::Service(service) => ("v1", serde_json::to_value(service)?),
            Object::ReplicationController(owner) => ("v1", serde_json::to_value(owner)?),
            Object::ReplicaSet(owner) => ("apps/v1", serde_json::to_value(owner)?),
            Object::StatefulSet(owner) => ("apps/v1", serde_json::to_value(owner)?),
            Object::Delete(_) => continue,
        };
        items.push(typed(value, version, kind_of(object)));
    }
    Ok(items)
}

/// Which object a change is about, with the namespace filled in; without uid.
pub(crate) fn reference(object: &Object) -> ObjectReference {
    let named = |metadata: &Option<ObjectMeta>| {
        let metadata = metadata.as_ref();
        let namespace = metadata.map_or("", |metadata| &metadata.namespace);
        ObjectReference {
            kind: kind_of(object).to_owned(),
            namespace: match (object, namespace) {
                (Object::Node(_), _) => String::new(),
                (_, "") => "default".to_owned(),
                _ => namespace.to_owned(),
            },
            name: metadata.map_or("", |metadata| &metadata.name).to_owned(),
            uid: String::new(),
        }
    };
    match object {
        Object::Node(node) => named(&node.metadata),
        Object::Pod(pod) => named(&pod.metadata),
        Object::Service(service) => named(&service.metadata),
        Object::ReplicaSet(set) => named(&set.metadata),
        Object::StatefulSet(set) => named(&set.metadata),
        Object::ReplicationController(controller) => named(&controller.metadata),
        Object::Delete(reference) => ObjectReference {
            uid: String::new(),
            ..reference.clone()
        },
    }
}

/// Kind, namespace and name of what a change is about, for a message.
pub(crate) fn object_name(object: &Object) -> String {
    let reference = reference(object);
    full_name(&reference.kind, &reference.namespace, &reference.name)
}
