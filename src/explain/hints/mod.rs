//! The hints: each a function of the case, with its numbers.

mod conflict;
mod minimum;
mod nodes;
mod nominated;
mod pods;
mod room;
mod selector;
mod skew;
mod soft;

use std::collections::BTreeMap;

use super::case::Case;
use super::diagnosis::Diagnosis;
use crate::proto::v1;
use crate::spread::Active;

/// All hints there are, the most useful first.
const HINTS: [fn(&Case<'_>) -> Vec<Diagnosis>; 14] = [
    minimum::unusable_domain,
    minimum::min_domains,
    pods::mixed_revisions,
    conflict::conflict,
    room::room,
    nominated::nominated,
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
    // When nobody waits any more, the rest is left out.
    let hints = HINTS.iter().take_while(|_| case.affords(case.nodes.len()));
    let hints = hints.flat_map(|hint| hint(case));
    hints.chain(soft::soft(case)).collect()
}

/// The hints about a constraint of pods with `labels` that hold for any nodes
/// and pods.
pub fn always(active: &Active, labels: &BTreeMap<String, String>) -> Vec<v1::Hint> {
    let is_soft = !active.constraint.is_hard();
    let hints = [
        selector::mismatch(active, labels),
        selector::empty(active),
        is_soft.then(|| soft::no_limit(active)),
    ];
    hints.into_iter().flatten().collect()
}
