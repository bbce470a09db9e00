//! The objects that decisions read: decoded by their kind, and written back.

use serde_json::{Value, json};

use super::error::ManifestError;
use super::fleet::{binding, cluster, is_binding, is_cluster};
use super::item::{DEFAULT_CONSTRAINTS_KIND, Item, OWN_API_VERSION, full_name, text};
use super::saved::{self, SavedOrigin};
use super::source::InputSource;
use crate::matching::names::namespace_or_default;
use crate::proto::v1::change::Object;
use crate::proto::v1::{DefaultConstraints, ExportSummary, ObjectReference, UpdateSnapshotRequest};
use crate::snapshot::metadata_of;

/// What an object of a file is to a snapshot.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(super) enum Decoded {
    /// Part of its state.
    Object(Object),
    /// Its default constraints.
    DefaultConstraints(DefaultConstraints),
    /// Where a saved snapshot came from: what follows is its content.
    Saved(SavedOrigin),
    /// What a saved snapshot held: it ends here.
    SavedEnd(ExportSummary),
    /// Nothing: an object of this kind.
    Other(String),
}

/// Defines all that depends on the kind of an object, from its kind and API
/// version.
macro_rules! kinds {
    ($($kind:ident: $version:literal),+ $(,)?) => {
        /// The kinds that decisions read.
        pub(crate) const KINDS: &[&str] = &[$(stringify!($kind)),+];

        /// Decodes an object of one of these kinds; gives another back.
        fn known(item: Item, source: &InputSource) -> Result<Result<Object, Item>, ManifestError> {
            let kind = text(&item.value, "kind");
            let version = text(&item.value, "apiVersion");
            match kind {
                // A version that is left out is the kind's own.
                $(stringify!($kind) if [$version, ""].contains(&version) => {
                    item.decode(source).map(|object| Ok(Object::$kind(object)))
                })+
                _ => Ok(Err(item)),
            }
        }

        /// The kind of an object; of a deletion, `delete`.
        pub(crate) fn kind_of(object: &Object) -> &'static str {
            match object {
                $(Object::$kind(_) => stringify!($kind),)+
                Object::Delete(_) => "delete",
            }
        }

        /// An object as an item of a list; none for a deletion.
        fn item_of(object: &Object) -> serde_json::Result<Option<Value>> {
            Ok(match object {
                $(Object::$kind(object) => {
                    Some(own_item(serde_json::to_value(object)?, $version, stringify!($kind)))
                })+
                Object::Delete(_) => None,
            })
        }
    };
}

kinds! {
    Node: "v1",
    Pod: "v1",
    Service: "v1",
    ReplicaSet: "apps/v1",
    StatefulSet: "apps/v1",
    ReplicationController: "v1",
}

/// Decodes an object by its kind and API version.
pub(super) fn decode(item: Item, source: &InputSource) -> Result<Decoded, ManifestError> {
    let kind = text(&item.value, "kind");
    let version = text(&item.value, "apiVersion");
    if is_cluster(kind, version) {
        return Ok(Decoded::Object(Object::Node(cluster(item, source)?)));
    }
    if is_binding(kind, version) {
        let kind = qualified_kind(&item);
        let pod = binding(item, source)?.map(Object::Pod);
        return Ok(pod.map_or(Decoded::Other(kind), Decoded::Object));
    }
    if version == OWN_API_VERSION {
        if kind == DEFAULT_CONSTRAINTS_KIND {
            return item.decode(source).map(Decoded::DefaultConstraints);
        }
        if let Some(saved) = SavedOrigin::of_item(&item.value) {
            return Ok(Decoded::Saved(saved));
        }
        if let Some(summary) = saved::summary_of_item(&item.value) {
            return Ok(Decoded::SavedEnd(summary));
        }
    }
    Ok(match known(item, source)? {
        Ok(object) => Decoded::Object(object),
        Err(item) => Decoded::Other(qualified_kind(&item)),
    })
}

/// Kind and group, as `kubectl get` takes them: `Deployment.apps`.
fn qualified_kind(item: &Item) -> String {
    let kind = text(&item.value, "kind");
    match text(&item.value, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind.to_owned(),
    }
}

/// The objects and default constraints of an update as items of a Kubernetes
/// list, which [`super::read_objects`] reads back. Deletions are left out.
pub(crate) fn items_of(update: &UpdateSnapshotRequest) -> serde_json::Result<Vec<Value>> {
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
        items.extend(item_of(object)?);
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

/// Which object a change is about, with the namespace filled in; without uid.
pub(crate) fn reference(object: &Object) -> ObjectReference {
    if let Object::Delete(reference) = object {
        return ObjectReference {
            uid: String::new(),
            ..reference.clone()
        };
    }
    let metadata = metadata_of(object);
    let namespace = metadata.map_or("", |metadata| &metadata.namespace);
    ObjectReference {
        kind: kind_of(object).to_owned(),
        namespace: match object {
            Object::Node(_) => String::new(),
            _ => namespace_or_default(namespace).to_owned(),
        },
        name: metadata.map_or("", |metadata| &metadata.name).to_owned(),
        uid: String::new(),
    }
}

/// Kind, namespace and name of what a change is about, for a message.
pub(crate) fn object_name(object: &Object) -> String {
    let reference = reference(object);
    full_name(&reference.kind, &reference.namespace, &reference.name)
}
