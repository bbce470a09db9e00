//! The item that `snapshot save` adds to the objects: their origin.

use serde_json::{Value, json};

use super::item::{OWN_API_VERSION, text};

/// Kind of the first item, which has the origin of the snapshot.
const SAVED_KIND: &str = "SavedSnapshot";

/// The origin of a saved snapshot: its epoch and revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedOrigin {
    /// Name of the snapshot.
    pub snapshot: String,
    /// Epoch of the revision.
    pub epoch: String,
    /// The revision.
    pub revision: i64,
    /// The version of Kubernetes that was set; empty if none.
    pub kubernetes_version: String,
}

impl SavedOrigin {
    /// The origin as an item of a list.
    pub(super) fn to_item(&self) -> Value {
        json!({
            "apiVersion": OWN_API_VERSION,
            "kind": SAVED_KIND,
            "metadata": {
                "name": self.snapshot,
                "uid": self.epoch,
                "resourceVersion": self.revision.to_string(),
            },
            "kubernetesVersion": self.kubernetes_version,
        })
    }

    /// The origin in an item; `None` if the item is another one.
    pub(super) fn of_item(value: &Value) -> Option<Self> {
        let metadata = &value["metadata"];
        let is_one = text(value, "kind") == SAVED_KIND;
        is_one.then_some(Self {
            snapshot: text(metadata, "name").to_owned(),
            epoch: text(metadata, "uid").to_owned(),
            revision: text(metadata, "resourceVersion").parse().ok()?,
            kubernetes_version: text(value, "kubernetesVersion").to_owned(),
        })
    }
}
