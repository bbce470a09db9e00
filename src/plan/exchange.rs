//! Improves a choice by exchanging single pods, for constraints that do not fit into two trees.

use super::cells::Choice;
use super::network::PlanCost;

/// Exchanges a pod that goes for a pod that stays, always by the best exchange, until no exchange
/// reduces the cost.
pub fn improve(choice: &Choice, removed: &mut [usize], affords: &dyn Fn(usize) -> bool) {
    let mut gone = vec![0; choice.domains.len()];
    for (cell, count) in choice.cells.iter().zip(removed.iter()) {
        for domain in cell.domains.iter().flatten() {
            gone[*domain] += count;
        }
    }
    let pairs = choice.cells.len() * choice.cells.len();
    while affords(4 * pairs)
        && let Some((_, goes, stays)) = best(choice, removed, &gone)
    {
        removed[goes] += 1;
        removed[stays] -= 1;
        for domain in choice.cells[goes].domains.iter().flatten() {
            gone[*domain] += 1;
        }
        for domain in choice.cells[stays].domains.iter().flatten() {
            gone[*domain] -= 1;
        }
    }
}

/// The exchange that reduces the cost most: its cost, the cell of the pod that goes instead, and
/// the cell of the pod that stays instead.
fn best(choice: &Choice, removed: &[usize], gone: &[usize]) -> Option<(PlanCost, usize, usize)> {
    let cells = || choice.cells.iter().enumerate();
    let exchanges = cells().flat_map(|(goes, more)| {
        let less = cells().filter(move |(stays, _)| *stays != goes && removed[*stays] > 0);
        let less = less.filter(move |_| removed[goes] < more.ranks.len());
        less.map(move |(stays, less)| {
            let mut cost = more.cost(removed[goes]) + -less.cost(removed[stays] - 1);
            for (a, b) in more.domains.iter().zip(&less.domains) {
                if a != b {
                    let of = |domain: &usize| &choice.domains[*domain];
                    cost = a.iter().fold(cost, |sum, a| sum + of(a).cost(gone[*a]));
                    cost = b
                        .iter()
                        .fold(cost, |sum, b| sum + -of(b).cost(gone[*b] - 1));
                }
            }
            (cost, goes, stays)
        })
    });
    exchanges
        .min()
        .filter(|(cost, ..)| *cost < PlanCost::default())
}
