//! The terms by which pods on nodes keep others away, looked up again among the pods of
//! all namespaces.

use std::collections::BTreeMap;

use super::finding::Findings;
use super::nodes::json;
use super::pods::each_stored;
use crate::matching::{Path, PodTerm, Violations};
use crate::recount::room;
use crate::snapshot::Frozen;

/// How many pods have a term on a node, by term and node.
type TermTally = BTreeMap<String, u32>;

/// Compares those that are kept. `None` as soon as `is_cancelled` says so.
pub fn compare(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let mut found = TermTally::new();
    each_stored(frozen, is_cancelled, |namespace, _, pod| {
        let Some(node) = room::node_taken(pod) else {
            return;
        };
        // How a term reads is held against a recount by every decision.
        let no_faults = &mut Violations::default();
        let terms = PodTerm::compile_existing(pod, Path::root("pod"), no_faults);
        for term in terms.iter().flat_map(|terms| &**terms) {
            let own = match term.is_about_own() {
                true => namespace,
                false => "",
            };
            *found.entry(name_of(term, own, node)).or_default() += 1;
        }
    })?;
    let mut kept = TermTally::new();
    for held in frozen.anti_affinity().iter() {
        for (slot, pods) in held.counts() {
            let node = frozen.nodes().name(slot);
            kept.insert(name_of(held.term(), held.own(), node), pods);
        }
    }
    let mut terms = findings.about("", || "anti-affinity of pods".to_owned());
    terms.compare_counts(|name| format!("pods with {name}"), &kept, &found);
    Some(())
}

fn name_of(term: &PodTerm, own: &str, node: &str) -> String {
    format!("{} of {own:?} on {node:?}", json(&term.to_wire()))
}
