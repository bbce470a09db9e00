//! What there is to choose from: pods that no constraint tells apart are in one cell.

use super::network::PlanCost;

/// The worth of removing a pod that is on a node in no domain: more than any evenness.
const OUTSIDE: i64 = 1 << 40;

/// A domain of a constraint.
#[derive(Debug, Clone)]
pub struct ChosenDomain {
    /// True if the constraint is hard.
    pub is_hard: bool,
    /// Matching pods in it; `None` for all nodes that are in no domain.
    pub pods: Option<i64>,
}

/// Pods that no constraint tells apart.
#[derive(Debug, Clone)]
pub struct PodCell {
    /// By constraint: the domain in which it counts them, if it does.
    pub domains: Vec<Option<usize>>,
    /// The places of the pods in the order in which they are deleted, ascending.
    pub ranks: Vec<usize>,
}

/// The nodes that there are to choose from.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The number of constraints.
    pub constraints: usize,
    /// Their domains.
    pub domains: Vec<ChosenDomain>,
    /// The pods.
    pub cells: Vec<PodCell>,
}

impl ChosenDomain {
    /// Returns what removing one more pod costs, after so many. Evenness is the sum of the
    /// squares of the counts: of so many pods it is least where they are spread best.
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
    /// Returns what removing one more pod costs by its place in the order of deletion, after
    /// so many.
    pub fn cost(&self, removed: usize) -> PlanCost {
        let rank = self.ranks[removed];
        PlanCost([0, 0, i64::try_from(rank).unwrap_or(i64::MAX)])
    }
}
