//! The hint about hard constraints that exclude each other.

use crate::explain::case::{Case, Hard, JudgedNode, values};
use crate::explain::diagnosis::{Diagnosis, hint, wire_index};
use crate::explain::words::plural;
use crate::proto::v1::hint::Kind;
use crate::snapshot::Stopped;

/// If no node is feasible, finds the first pair of hard constraints that each admit nodes, but no
/// node together.
pub fn conflict(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    if !case.is_stuck() {
        return Ok(Vec::new());
    }
    let admitted = |hard: &Hard<'_>| -> Vec<bool> {
        let admits = |node: &JudgedNode<'_>| case.passes_checks(node) && case.admits(hard, node);
        case.nodes.iter().map(admits).collect()
    };
    let all: Vec<(&Hard<'_>, Vec<bool>)> = case
        .hard
        .iter()
        .map(|hard| (hard, admitted(hard)))
        .filter(|(_, admitted)| admitted.contains(&true))
        .collect();
    for (i, (one, admits)) in all.iter().enumerate() {
        for (other, also) in &all[i + 1..] {
            case.read_view.deadline.step(admits.len())?;
            if !admits.iter().zip(also).any(|(one, other)| *one && *other) {
                let message = format!(
                    "{} admits {}, and {} admits {}: each can be satisfied, but no node \
                     satisfies both",
                    one.title(),
                    where_to(case, one, admits),
                    other.title(),
                    where_to(case, other, also),
                );
                let mut hint = hint(Kind::Conflict, one.active(), message);
                hint.other_constraint_index = wire_index(other.active());
                return Ok(vec![hint.into()]);
            }
        }
    }
    Ok(Vec::new())
}

/// The nodes that a constraint admits: `3 nodes (zone-a, zone-b)`.
fn where_to(case: &Case<'_>, hard: &Hard<'_>, admits: &[bool]) -> String {
    let nodes = case.nodes.iter().zip(admits).filter(|(_, admits)| **admits);
    let count = admits.iter().filter(|admits| **admits).count();
    let values = values(nodes.map(|(node, _)| node), hard.key());
    format!("{} ({values})", plural(count, "node"))
}
