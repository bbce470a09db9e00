//! The result of a replay.

use serde::Serialize;
use serde_json::Value;

use super::look::Look;
use super::page::{Page, PagePart, Parts};
use super::text::{number, plural};
use crate::decision_log::AnswerDifference;

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replayed {
    /// Name of the snapshot.
    pub(crate) snapshot: String,
    /// The epoch of the state, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<String>,
    /// The revision of the state, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<i64>,
    /// The number of decisions with the same result.
    pub(crate) same: usize,
    /// The number of lines about other snapshots.
    pub(crate) of_other_snapshots: usize,
    /// The number of lines that could not be read, such as one that was cut off.
    pub(crate) unreadable: usize,
    /// The decisions with a different result, in the order of the log.
    pub(crate) different: Vec<Different>,
}

/// A decision with a different result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Different {
    /// The decision's id in the log.
    pub(crate) id: String,
    /// The time of the decision.
    pub(crate) time: String,
    pub(crate) rpc: String,
    /// Namespace and name of the pod; the name may be empty.
    pub(crate) pod: String,
    /// The epoch that the decision read.
    pub(crate) epoch: String,
    /// The revision that the decision read.
    pub(crate) revision: i64,
    /// True if the state has that revision; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) same_revision: Option<bool>,
    /// The differences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) differences: Vec<AnswerDifference>,
    /// The reason why the request is refused now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// The result: a summary, and each different decision with both values.
pub(crate) fn replayed(replayed: &Replayed) -> Page {
    let state = match replayed.revision {
        Some(revision) => format!("revision {revision}"),
        None => "of which the revision is not known".to_owned(),
    };
    let different = replayed.different.len();
    let all = plural(replayed.same + different, "decision");
    let verdict = match different {
        0 => format!("same: all of {all}"),
        _ => format!("different: {} of {all}", number(different)),
    };
    let left_out = [
        (replayed.of_other_snapshots, "left out, of other snapshots"),
        (replayed.unreadable, "lines that are no decision"),
    ];
    let left_out = left_out.into_iter().filter(|(count, _)| *count > 0);
    let mut parts = Parts::default();
    parts.indented(left_out.map(|(count, what)| format!("{} {what}", number(count))));
    parts.0.extend(replayed.different.iter().map(one));
    let mut page = Page::new("admin replay", "Decisions again");
    page.subject = Some(format!("snapshot {:?}, {state}", replayed.snapshot));
    page.verdict(Look::of(different == 0), verdict).with(parts)
}

fn one(different: &Different) -> PagePart {
    let revision = match different.same_revision {
        Some(true) => "the same revision".to_owned(),
        Some(false) => format!("another revision, {}", different.revision),
        None => format!("revision {}", different.revision),
    };
    let title = format!("{} {} of {}", different.id, different.rpc, different.pod);
    let when = format!(", {}, on {revision}", different.time);
    let mut parts = Parts::default();
    for found in &different.differences {
        let (was, is) = (said(&found.was), said(&found.is));
        parts.line(format!("{}: was {was}, is {is}", found.field));
    }
    let refused = different.refused.iter();
    parts.lines(refused.map(|why| format!("refused now: {why}")));
    PagePart::Section(vec![(Look::Strong, title), (Look::Plain, when)], parts)
}

/// A value in words: a text as it is.
fn said(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
