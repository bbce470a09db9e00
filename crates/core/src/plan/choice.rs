//! Chooses which pods go. Pods that no constraint distinguishes are in one cell. The number of pods
//! to remove of each cell is a flow of least cost through the domains. If some constraints do not
//! fit into two trees, single pods are exchanged after that.

use super::network::{Cells, PlanCost, SINK, SOURCE, Sides, TreeNetwork};
use crate::snapshot::{Deadline, Stopped};

/// The gain of removing a pod on a node in no domain. It exceeds any gain in evenness.
const OUTSIDE: i64 = 1 << 40;

/// A domain of a constraint.
#[derive(Debug, Clone)]
pub struct ChosenDomain {
    /// True if the constraint is hard.
    pub is_hard: bool,
    /// The number of matching pods in the domain. `None` if this entry stands for the nodes in no
    /// domain.
    pub pods: Option<i64>,
}

/// Pods that no constraint distinguishes.
#[derive(Debug, Clone)]
pub struct PodCell {
    /// For each constraint, the domain in which it counts the pods, if it counts them.
    pub domains: Vec<Option<usize>>,
    /// The positions of the pods in the order of deletion, ascending.
    pub ranks: Vec<usize>,
}

/// The pods to choose from, with the domains of their constraints.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The number of constraints.
    pub constraints: usize,
    /// The domains of all constraints.
    pub domains: Vec<ChosenDomain>,
    /// The pods, in cells.
    pub cells: Vec<PodCell>,
}

/// The result of a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The number of removed pods of each cell.
    pub removed: Vec<usize>,
    /// True if no other choice is better.
    pub optimal: bool,
}

impl ChosenDomain {
    /// Returns the cost of removing one more pod after `removed` pods. It is the change of the sum
    /// of the squares of the counts: pods are spread best if this sum is least.
    pub fn cost(&self, removed: usize) -> PlanCost {
        let removed = i64::try_from(removed).unwrap_or(i64::MAX);
        let cost = match self.pods {
            Some(pods) => 1 - 2 * (pods - removed),
            None => -OUTSIDE,
        };
        match self.is_hard {
            true => PlanCost([cost, 0, 0]),
            false => PlanCost([0, cost, 0]),
        }
    }
}

impl PodCell {
    /// Returns the cost of removing one more pod after `removed` pods, by the order of deletion.
    pub fn cost(&self, removed: usize) -> PlanCost {
        let rank = self.ranks[removed];
        PlanCost([0, 0, i64::try_from(rank).unwrap_or(i64::MAX)])
    }
}

impl Choice {
    /// Chooses `count` pods.
    pub fn choose(&self, count: usize, deadline: &Deadline<'_>) -> Result<Chosen, Stopped> {
        let domains: Vec<_> = self.cells.iter().map(|cell| cell.domains.clone()).collect();
        let sizes: Vec<usize> = self.cells.iter().map(|cell| cell.ranks.len()).collect();
        let cells = Cells {
            domains: &domains,
            domain_count: self.domains.len(),
            constraints: self.constraints,
        };
        let sides = Sides::of(cells);
        let mut trees = sides.network(cells, &sizes);
        let TreeNetwork { network, domain_of } = &mut trees;
        let pods: usize = sizes.iter().sum();
        let count = count.min(pods);
        let cost = |arc: usize, flow: usize| match arc.checked_sub(domain_of.len()) {
            Some(cell) => self.cells[cell].cost(flow),
            None => self.domains[domain_of[arc]].cost(flow),
        };
        // If most pods go, the flow begins with all of them removed and takes back those that stay.
        let (from, to, times) = match count > pods - count {
            true => {
                for arc in &mut network.arcs {
                    arc.flow = arc.capacity;
                }
                (SINK, SOURCE, pods - count)
            }
            false => (SOURCE, SINK, count),
        };
        let mut left = times;
        while left > 0 {
            deadline.step(network.arcs.len())?;
            let sent = network.send((from, to), left, &cost, PlanCost::MOST);
            if sent == 0 {
                break;
            }
            left -= sent;
        }
        let mut removed = trees.flows();
        let optimal = sides.left_out.is_empty();
        if !optimal {
            improve(self, &mut removed, deadline)?;
        }
        Ok(Chosen { removed, optimal })
    }

    /// The cells of the chosen pods, in the order in which these go. The next is always the pod
    /// whose removal costs least.
    pub fn in_order(
        &self,
        chosen: &Chosen,
        deadline: &Deadline<'_>,
    ) -> Result<Vec<usize>, Stopped> {
        let mut taken = vec![0; self.cells.len()];
        let mut left = vec![0; self.domains.len()];
        let mut order = Vec::new();
        let worst = |taken: &[usize], left: &[usize]| {
            let cells = self.cells.iter().enumerate();
            let waiting = cells.filter(|(index, _)| taken[*index] < chosen.removed[*index]);
            let costs = waiting.map(|(index, cell)| {
                let domains = cell.domains.iter().flatten();
                let costs = domains.map(|domain| self.domains[*domain].cost(left[*domain]));
                let cost = costs.fold(cell.cost(taken[index]), |sum, cost| sum + cost);
                (cost, index)
            });
            costs.min().map(|(_, index)| index)
        };
        while let Some(cell) = worst(&taken, &left) {
            deadline.step(self.cells.len())?;
            order.push(cell);
            taken[cell] += 1;
            for domain in self.cells[cell].domains.iter().flatten() {
                left[*domain] += 1;
            }
        }
        Ok(order)
    }
}

/// Exchanges a pod that goes for a pod that stays, always by the best exchange, until no exchange
/// reduces the cost.
fn improve(choice: &Choice, removed: &mut [usize], deadline: &Deadline<'_>) -> Result<(), Stopped> {
    let mut gone = vec![0; choice.domains.len()];
    for (cell, count) in choice.cells.iter().zip(removed.iter()) {
        for domain in cell.domains.iter().flatten() {
            gone[*domain] += count;
        }
    }
    while let Some((_, goes, stays)) = best(choice, removed, &gone, deadline)? {
        removed[goes] += 1;
        removed[stays] -= 1;
        for domain in choice.cells[goes].domains.iter().flatten() {
            gone[*domain] += 1;
        }
        for domain in choice.cells[stays].domains.iter().flatten() {
            gone[*domain] -= 1;
        }
    }
    Ok(())
}

/// The exchange that reduces the cost most: its cost, the cell of the pod that goes instead, and
/// the cell of the pod that stays instead.
fn best(
    choice: &Choice,
    removed: &[usize],
    gone: &[usize],
    deadline: &Deadline<'_>,
) -> Result<Option<(PlanCost, usize, usize)>, Stopped> {
    let cells = || choice.cells.iter().enumerate();
    let mut best = None;
    for (goes, more) in cells().filter(|(goes, more)| removed[*goes] < more.ranks.len()) {
        deadline.step(choice.cells.len())?;
        let less = cells().filter(|(stays, _)| *stays != goes && removed[*stays] > 0);
        let exchanges = less.map(|(stays, less)| {
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
        });
        best = exchanges.chain(best).min();
    }
    Ok(best.filter(|(cost, ..)| *cost < PlanCost::default()))
}
