//! The pods to choose from when some go. Pods that no constraint distinguishes are in one cell.

use super::network::PlanCost;

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
