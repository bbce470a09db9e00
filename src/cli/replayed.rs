//! What a replay came to.

use serde::{Deserialize, Serialize};

use crate::decision_log::AnswerDifference;

/// What a replay came to.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replayed {
    /// Name of the snapshot.
    pub(crate) snapshot: String,
    /// Epoch of the state, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<String>,
    /// Revision of the state, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<i64>,
    /// Decisions that came out the same.
    pub(crate) same: usize,
    /// Decisions that were left out, for they were made on other revisions.
    pub(crate) left_out: usize,
    /// Lines about other snapshots.
    pub(crate) of_other_snapshots: usize,
    /// Lines that could not be read, such as one that was cut off.
    pub(crate) unreadable: usize,
    /// Decisions that came out differently, in the order of the log.
    pub(crate) different: Vec<Different>,
}

/// A decision that came out differently.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Different {
    /// Its id in the log.
    pub(crate) id: String,
    /// When it was made.
    pub(crate) time: String,
    /// The RPC.
    pub(crate) rpc: String,
    /// Namespace and name of the pod; the name may be empty.
    pub(crate) pod: String,
    /// Epoch that it saw.
    pub(crate) epoch: String,
    /// Revision that it saw.
    pub(crate) revision: i64,
    /// Whether the state is of that revision; absent when it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) same_revision: Option<bool>,
    /// Where it differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) differences: Vec<AnswerDifference>,
    /// Why it is refused now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}
