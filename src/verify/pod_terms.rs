//! The terms of pods on nodes about other pods, looked up again among the pods of all namespaces.

use std::collections::BTreeMap;

use super::finding::Findings;
use super::nodes::json;
use super::pods::each_stored;
use crate::matching::{Path, PodTerm, Violations};
use crate::recount::room;
use crate::snapshot::Frozen;

/// The number of pods on a node with a term, by term and node.
type TermTally = BTreeMap<String, u32>;

/// Compares the kept terms. `None` as soon as `is_cancelled` returns true.
pub fn compare(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let mut found = [TermTally::new(), TermTally::new()];
    each_stored(frozen, is_cancelled, |namespace, _, pod| {
        let Some(node) = room::node_taken(pod) else {
            return;
        };
        // The reading of a term is not checked here: tests compare every decision with a recount.
        let no_faults = &mut Violations::default();
        let keeps_away = PodTerm::compile_existing(pod, Path::root("pod"), no_faults);
        for (terms, found) in [keeps_away, PodTerm::scored(pod)].iter().zip(&mut found) {
            for term in terms.iter().flat_map(|terms| &**terms) {
                let own = match term.is_about_own() {
                    true => namespace,
                    false => "",
                };
                *found.entry(name_of(term, own, node)).or_default() += 1;
            }
        }
    })?;
    let tables = [
        ("anti-affinity of pods", frozen.anti_affinity()),
        ("scored terms of pods", frozen.scored_terms()),
    ];
    for ((what, table), found) in tables.into_iter().zip(&found) {
        let mut kept = TermTally::new();
        for held in table.iter() {
            for (slot, pods) in held.counts() {
                let node = frozen.nodes().name(slot);
                kept.insert(name_of(held.term(), held.own(), node), pods);
            }
        }
        let mut terms = findings.about("", || what.to_owned());
        terms.compare_counts(|name| format!("pods with {name}"), &kept, found);
    }
    Some(())
}

fn name_of(term: &PodTerm, own: &str, node: &str) -> String {
    format!("{} of {own:?} on {node:?}", json(&term.to_wire()))
}
