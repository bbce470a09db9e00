//! Chooses how many pods of each cell to remove, as a flow of least cost through the domains.

use super::cells::Choice;
use super::exchange;
use super::network::PlanCost;
use super::sides::{Cells, SINK, SOURCE, Sides, TreeNetwork};

/// The result of a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The number of removed pods of each cell.
    pub removed: Vec<usize>,
    /// True if no other choice is better.
    pub optimal: bool,
}

impl Choice {
    /// Chooses `count` pods. Ends early if `affords` returns false.
    pub fn choose(&self, count: usize, affords: &dyn Fn(usize) -> bool) -> Chosen {
        let domains: Vec<_> = self.cells.iter().map(|cell| cell.domains.clone()).collect();
        let sizes: Vec<usize> = self.cells.iter().map(|cell| cell.ranks.len()).collect();
        let cells = Cells {
            domains: &domains,
            domain_count: self.domains.len(),
            constraints: self.constraints,
        };
        let sides = Sides::of(cells);
        let TreeNetwork {
            mut network,
            domain_of,
        } = sides.network(cells, &sizes);
        let pods: usize = sizes.iter().sum();
        let count = count.min(pods);
        let cost = |arc: usize, flow: usize| match arc.checked_sub(domain_of.len()) {
            Some(cell) => self.cells[cell].cost(flow),
            None => self.domains[domain_of[arc]].cost(flow),
        };
        // If most pods go, the flow begins with all of them removed and takes back those that stay.
        let (from, to, times) = match count > pods - count {
            true => {
                network
                    .arcs
                    .iter_mut()
                    .for_each(|arc| arc.flow = arc.capacity);
                (SINK, SOURCE, pods - count)
            }
            false => (SOURCE, SINK, count),
        };
        let mut left = times;
        while left > 0 && affords(4 * network.arcs.len()) {
            let sent = network.send((from, to), left, &cost, PlanCost::MOST);
            if sent == 0 {
                break;
            }
            left -= sent;
        }
        let flows = network.arcs[domain_of.len()..].iter();
        let mut removed: Vec<usize> = flows.map(|arc| arc.flow).collect();
        let optimal = sides.left_out.is_empty();
        if !optimal {
            exchange::improve(self, &mut removed, affords);
        }
        Chosen { removed, optimal }
    }

    /// The cells of the chosen pods, in the order in which these go. The next is always the pod
    /// whose removal costs least. Ends early if `affords` returns false.
    pub fn in_order(&self, chosen: &Chosen, affords: &dyn Fn(usize) -> bool) -> Vec<usize> {
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
        while affords(4 * self.cells.len())
            && let Some(cell) = worst(&taken, &left)
        {
            order.push(cell);
            taken[cell] += 1;
            for domain in self.cells[cell].domains.iter().flatten() {
                left[*domain] += 1;
            }
        }
        order
    }
}
