//! An object as it was read, before its kind is checked.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ManifestError;
use super::lean::prune;
use super::source::InputSource;
use evenkeel_core::of_kind;
use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::snapshot::ObjectKind;

/// API version of the items that `snapshot save` adds to a list.
pub(super) const OWN_API_VERSION: &str = "evenkeel/v1";
/// Kind under which `snapshot save` writes default constraints.
pub(super) const DEFAULT_CONSTRAINTS_KIND: &str = "DefaultConstraints";

/// The place where an object was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectOrigin {
    /// Index of the source in the order in which they were read.
    pub(super) source: u32,
    /// Number of the document in the source, from 1.
    pub(super) document: u32,
    /// Number of the item in the document's list, from 1; 0 when the document
    /// is the object itself.
    pub(super) item: u32,
}

impl ObjectOrigin {
    /// The origin of an object in a document that is no list.
    pub(super) fn whole(source: u32, document: u32) -> Self {
        Self {
            source,
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
    pub(super) fn describe(&self, source: &InputSource) -> String {
        let mut text = source.to_string();
        if let InputSource::Cluster(_) = source {
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
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Value")]
pub struct Item {
    pub(super) value: Value,
    pub(super) origin: ObjectOrigin,
}

impl From<Value> for Item {
    /// An object of an API server, without the fields that are never used.
    fn from(value: Value) -> Self {
        Self::of(value, ObjectOrigin::default(), false)
    }
}

impl Item {
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
    pub fn object(self, kind: ObjectKind, source: &InputSource) -> Result<Object, ManifestError> {
        Ok(of_kind!(kind, self.decode(source)?))
    }

    /// Decodes the object as `T`.
    pub(super) fn decode<T: DeserializeOwned>(
        self,
        source: &InputSource,
    ) -> Result<T, ManifestError> {
        let object = describe(&self.value);
        serde_path_to_error::deserialize(self.value).map_err(|error| ManifestError::Field {
            place: self.origin.describe(source),
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
