//! Decodes the objects that decisions read by their kind, and writes them back.

use serde_json::{Value, json};

use super::error::ManifestError;
use super::fleet::{binding, cluster, is_binding, is_cluster};
use super::item::{DEFAULT_CONSTRAINTS_KIND, Item, OWN_API_VERSION, full_name, text};
use super::pod_defaults;
use super::saved::SavedOrigin;
use super::source::InputSource;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::proto::v1::{Change, DefaultConstraints, UpdateSnapshotRequest};
use evenkeel_core::snapshot::{ObjectId, ObjectKind};
use evenkeel_core::with_message;

/// An object of a file, in the form that a snapshot takes.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(super) enum DecodedItem {
    /// A part of the snapshot's state.
    Object(Object),
    /// The snapshot's default constraints.
    DefaultConstraints(DefaultConstraints),
    /// The origin of a saved snapshot, whose content follows.
    Saved(SavedOrigin),
    /// An object of this kind, which no snapshot takes.
    Other(String),
}

/// Decodes an object by its kind and API version.
pub(super) fn decode(mut item: Item, source: &InputSource) -> Result<DecodedItem, ManifestError> {
    let kind = text(&item.value, "kind");
    let version = text(&item.value, "apiVersion");
    if is_cluster(kind, version) {
        return Ok(DecodedItem::Object(Object::Node(cluster(item, source)?)));
    }
    if is_binding(kind, version) {
        let kind = qualified_kind(&item);
        let pod = binding(item, source)?.map(Object::Pod);
        return Ok(pod.map_or(DecodedItem::Other(kind), DecodedItem::Object));
    }
    if version == OWN_API_VERSION {
        if kind == DEFAULT_CONSTRAINTS_KIND {
            return item.decode(source).map(DecodedItem::DefaultConstraints);
        }
        if let Some(saved) = SavedOrigin::of_item(&item.value) {
            return Ok(DecodedItem::Saved(saved));
        }
    }
    // A missing version means the version of the known kind.
    let known = ObjectKind::parse(kind).filter(|it| [it.api_version(), ""].contains(&version));
    if known == Some(ObjectKind::Pod) {
        pod_defaults::set_of_containers(&mut item.value);
        pod_defaults::set_of_pod(&mut item.value);
    }
    Ok(match known {
        Some(kind) => DecodedItem::Object(item.object(kind, source)?),
        None => DecodedItem::Other(qualified_kind(&item)),
    })
}

/// An object as a change. The change is empty if decisions do not read the object's kind.
pub(super) fn change(item: Item, source: &InputSource) -> Result<Change, ManifestError> {
    let object = match decode(item, source)? {
        DecodedItem::Object(object) => Some(object),
        _ => None,
    };
    Ok(Change { object })
}

/// Kind and group, in the form that `kubectl get` takes: `Deployment.apps`.
fn qualified_kind(item: &Item) -> String {
    let kind = text(&item.value, "kind");
    match text(&item.value, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind.to_owned(),
    }
}

/// The objects and default constraints of an update as items of a Kubernetes
/// list, which [`super::read_objects`] reads back. Deletions are left out.
pub(super) fn items_of(update: &UpdateSnapshotRequest) -> serde_json::Result<Vec<Value>> {
    let mut items = Vec::with_capacity(update.changes.len() + 1);
    if let Some(constraints) = &update.default_constraints {
        let value = serde_json::to_value(constraints)?;
        items.push(own_item(value, OWN_API_VERSION, DEFAULT_CONSTRAINTS_KIND));
    }
    let objects = update
        .changes
        .iter()
        .filter_map(|change| change.object.as_ref());
    for object in objects {
        let value = with_message!(
            object,
            message => serde_json::to_value(message)?,
            _deleted => continue
        );
        let kind = ObjectId::of(object).kind;
        items.push(own_item(value, kind.api_version(), kind.as_str()));
    }
    Ok(items)
}

/// The fields of an object, after its kind and version.
fn own_item(value: Value, version: &str, kind: &str) -> Value {
    let mut fields = json!({ "apiVersion": version, "kind": kind });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, value) {
        fields.extend(more);
    }
    fields
}

/// Kind, namespace and name of the object of a change, for a message.
pub fn object_name(object: &Object) -> String {
    name_of(&ObjectId::of(object))
}

/// Kind, namespace and name of an object id, for a message.
pub(super) fn name_of(id: &ObjectId<'_>) -> String {
    full_name(id.kind.as_str(), id.namespace, id.name)
}
