//! Answers as text for a person: pure functions from a response to a string.
//! Styles are written always; the output drops them where they are not wanted.

mod bars;
mod constraint;
mod explain;
mod filter;
#[cfg(test)]
mod hostile;
mod html;
mod lint;
mod place;
mod replay;
mod reservations;
mod score;
mod snapshot;
mod spread;
mod state;
mod style;
mod table;
#[cfg(test)]
mod tests;
mod verified;

use crate::visible;

pub(crate) use explain::explain;
pub(crate) use filter::filter;
pub(crate) use html::explain_html;
pub(crate) use lint::lint;
pub(crate) use place::place;
pub(crate) use replay::replayed;
pub(crate) use reservations::reservations;
pub(crate) use score::score;
pub(crate) use snapshot::{snapshot, snapshots};
pub(crate) use spread::{SpreadOf, spread, workload_name};
pub(crate) use state::{loss, repaired, states};
pub(crate) use verified::verified;

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
}

impl Head<'_> {
    fn lines(&self, revision: i64) -> String {
        format!(
            "{}\nsnapshot {:?}, revision {revision}\n",
            visible::text(self.pod),
            self.snapshot
        )
    }

    /// How many of `count` nodes to list.
    fn listed(&self, count: usize) -> usize {
        if self.all {
            count
        } else {
            count.min(LISTED_NODES)
        }
    }
}

/// What stands for the rows that are left out, e.g. `... and 4,950 more nodes`.
fn and_more(count: usize, what: &str, how: &str) -> String {
    match count {
        0 => String::new(),
        _ => format!("... and {} more {what} ({how})\n", counted(count as i64)),
    }
}

/// A number with separators: `4,950`.
fn counted(count: i64) -> String {
    indicatif::HumanCount(count.max(0) as u64).to_string()
}
