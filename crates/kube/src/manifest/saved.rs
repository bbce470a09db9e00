//! The items that `snapshot save` adds to the objects: their origin, and a sum by which an
//! incomplete file is detected.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde_json::{Value, json};

use super::export_sum::ExportSum;
use super::item::{OWN_API_VERSION, text};
use evenkeel_core::proto::v1::ExportSummary;

/// Kind of the first item, which has the origin of the snapshot.
const SAVED_KIND: &str = "SavedSnapshot";

/// Kind of the last item, with the sum over the objects.
const END_KIND: &str = "SavedSnapshotEnd";

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

/// The item that ends a saved snapshot.
pub(super) fn end_item(summary: &ExportSummary) -> Value {
    json!({
        "apiVersion": OWN_API_VERSION,
        "kind": END_KIND,
        "objectCount": summary.object_count,
        "sha256": HEXLOWER.encode(&summary.sha256),
    })
}

/// Returns the summary in the item that ends a saved snapshot; `None` for another item.
pub(super) fn summary_of_item(value: &Value) -> Option<ExportSummary> {
    let is_end = text(value, "kind") == END_KIND;
    let sum = HEXLOWER_PERMISSIVE.decode(text(value, "sha256").as_bytes());
    is_end.then(|| ExportSummary {
        // -1 stands for an unreadable number and equals no sum.
        object_count: value
            .get("objectCount")
            .and_then(Value::as_i64)
            .unwrap_or(-1),
        sha256: sum.unwrap_or_default().into(),
    })
}

/// The message about a saved snapshot that has no end in its source.
pub(super) const CUT_SHORT: &str = "the saved snapshot is cut short: it has no SavedSnapshotEnd \
     (nor has one that an earlier version saved; without the SavedSnapshot it is a list as any \
     other, for `evenkeel load`)";

/// Compares the summary at the end with the sum over the objects since the SavedSnapshot. The sum
/// is `None` if there was no SavedSnapshot.
///
/// # Errors
/// The message, if the sums differ or there is no sum.
pub(super) fn compare(sum: Option<ExportSum>, summary: &ExportSummary) -> Result<(), &'static str> {
    match sum.map(ExportSum::finish) {
        Some(read) if read == *summary => Ok(()),
        Some(_) => Err(
            "what it holds is not what was saved: the objects do not agree with the \
             SavedSnapshotEnd (without this and the SavedSnapshot it is a list as any other, \
             for `evenkeel load`)",
        ),
        None => Err("a SavedSnapshotEnd without a SavedSnapshot before it"),
    }
}
