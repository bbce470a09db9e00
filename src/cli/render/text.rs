//! Numbers and lines that several answers have.

use crate::explain::noun;
use crate::visible;

/// Nodes that a table lists unless all are wanted.
const LISTED_NODES: usize = 50;

/// What is said above an answer.
pub(crate) struct Head<'a> {
    /// Kind and name of the pod or workload.
    pub(crate) pod: &'a str,
    /// Name of the snapshot.
    pub(crate) snapshot: &'a str,
    /// Whether to list all nodes.
    pub(crate) all: bool,
    /// Whether the pod was taken out of the snapshot for the answer.
    pub(crate) taken_out: bool,
}

/// What is said of a pod that was taken out of the snapshot for the answer.
pub(crate) const TAKEN_OUT: &str = "the pod is in the snapshot: it was taken out first";

impl Head<'_> {
    /// The first lines of an answer.
    pub(super) fn lines(&self, revision: i64) -> String {
        let taken_out = match self.taken_out {
            true => format!("{TAKEN_OUT}\n"),
            false => String::new(),
        };
        format!(
            "{}\nsnapshot {:?}, revision {revision}\n{taken_out}",
            visible::text(self.pod),
            self.snapshot
        )
    }

    /// How many of `count` nodes to list.
    pub(super) fn listed(&self, count: usize) -> usize {
        if self.all {
            count
        } else {
            count.min(LISTED_NODES)
        }
    }
}

/// The line for omitted rows, e.g. `... and 4,950 more nodes`, after `indent`.
pub(super) fn and_more(indent: &str, count: usize, what: &str, how: &str) -> String {
    match count {
        0 => String::new(),
        _ => format!(
            "{indent}... and {} more {what} ({how})\n",
            counted(count as i64)
        ),
    }
}

/// A number with separators: `4,950`.
pub(super) fn counted(count: i64) -> String {
    indicatif::HumanCount(count.max(0) as u64).to_string()
}

/// A number with separators and what it counts: `1 node`, `4,950 nodes`.
pub(super) fn many(count: i64, what: &str) -> String {
    format!("{} {}", counted(count), noun(count, what))
}

/// A line that names the fields of a pod that nobody checked, if there are any.
pub(crate) fn not_checked(fields: &[String]) -> String {
    match fields {
        [] => String::new(),
        fields => format!("not checked: {}\n", fields.join(", ")),
    }
}
