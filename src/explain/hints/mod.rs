//! The hints: each a function of the case, with its numbers.

mod conflict;
mod minimum;
mod nodes;
mod pods;
mod selector;
mod skew;
mod soft;

use std::collections::BTreeMap;

use super::case::Case;
use crate::proto::v1;
use crate::spread::Active;

/// A hint, and what to do about it in the words of an order, if anything
/// would admit a node.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The hint.
    pub hint: v1::Hint,
    /// E.g. `set maxSkew to 2`. It was decided that this admits a node.
    pub remedy: Option<String>,
}

/// All hints there are, the most useful first.
const HINTS: [fn(&Case<'_>) -> Vec<Diagnosis>; 12] = [
    minimum::unusable_domain,
    minimum::min_domains,
    pods::mixed_revisions,
    conflict::conflict,
    skew::more_pods,
    skew::fewer_pods,
    skew::max_skew,
    selector::self_mismatch,
    selector::empty_selector,
    nodes::missing_key,
    nodes::empty_value,
    pods::terminating,
];

/// The hints of a case.
pub fn all(case: &Case<'_>) -> Vec<Diagnosis> {
    // Once nobody waits any more the rest is left out.
    let hints = HINTS.iter().take_while(|_| case.affords(case.nodes.len()));
    let hints = hints.flat_map(|hint| hint(case));
    hints.chain(soft::soft(case)).collect()
}

/// The hints about a constraint of pods with `labels` that hold whatever nodes
/// and pods there are.
pub fn always(active: &Active, labels: &BTreeMap<String, String>) -> Vec<v1::Hint> {
    let is_soft = !active.constraint.is_hard();
    let hints = [
        selector::mismatch(active, labels),
        selector::empty(active),
        is_soft.then(|| soft::no_limit(active)),
    ];
    hints.into_iter().flatten().collect()
}

impl From<v1::Hint> for Diagnosis {
    fn from(hint: v1::Hint) -> Self {
        Self { hint, remedy: None }
    }
}
