//! The result of a replay.

use serde::{Deserialize, Serialize};

use super::text::{BAD, GOOD, HEADING, number, plural, styled};
use crate::decision_log::AnswerDifference;

/// The result of a replay.
#[derive(Debug, Default, Serialize, Deserialize)]
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
    /// The number of decisions that were left out because they were made on other revisions.
    pub(crate) left_out: usize,
    /// The number of lines about other snapshots.
    pub(crate) of_other_snapshots: usize,
    /// The number of lines that could not be read, such as one that was cut off.
    pub(crate) unreadable: usize,
    /// The decisions with a different result, in the order of the log.
    pub(crate) different: Vec<Different>,
}

/// A decision with a different result.
#[derive(Debug, Serialize, Deserialize)]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) differences: Vec<AnswerDifference>,
    /// The reason why the request is refused now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// The result as text: a summary, and each different decision with both values.
pub(crate) fn replayed(replayed: &Replayed) -> String {
    let state = match replayed.revision {
        Some(revision) => format!("revision {revision}"),
        None => "of which the revision is not known".to_owned(),
    };
    let different = replayed.different.len();
    let all = replayed.same + different;
    let (style, verdict) = match different {
        0 => (GOOD, format!("same: all of {}", plural(all, "decision"))),
        _ => {
            let (different, all) = (number(different), plural(all, "decision"));
            (BAD, format!("different: {different} of {all}"))
        }
    };
    let verdict = styled(style.bold(), &verdict);
    let mut text = format!("snapshot {:?}, {state}\n{verdict}\n", replayed.snapshot);
    let aside = [
        (replayed.left_out, "left out, of other revisions"),
        (replayed.of_other_snapshots, "left out, of other snapshots"),
        (replayed.unreadable, "lines that are no decision"),
    ];
    for (count, what) in aside.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("  {} {what}\n", number(count)));
    }
    text.extend(replayed.different.iter().map(one));
    text
}

fn one(different: &Different) -> String {
    let revision = match different.same_revision {
        Some(true) => "the same revision".to_owned(),
        Some(false) => format!("another revision, {}", different.revision),
        None => format!("revision {}", different.revision),
    };
    let title = format!("{} {} of {}", different.id, different.rpc, different.pod);
    let title = styled(HEADING, &title);
    let mut text = format!("\n{title}, {}, on {revision}\n", different.time);
    for found in &different.differences {
        text.push_str(&format!(
            "  {}: was {}, is {}\n",
            found.part,
            said(&found.here),
            said(&found.there)
        ));
    }
    if let Some(refused) = &different.refused {
        text.push_str(&format!("  refused now: {refused}\n"));
    }
    text
}

fn said(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}
