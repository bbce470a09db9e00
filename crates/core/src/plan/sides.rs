//! Constraints as two trees of domains. Constraints whose domains are disjoint or contain one
//! another form a tree. With two trees a choice becomes a flow problem.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::network::{FlowArc, Network};

/// The vertex where units begin.
pub const SOURCE: usize = 0;
/// The vertex where units end.
pub const SINK: usize = 1;

/// Cells of pods or nodes that no constraint distinguishes.
#[derive(Debug, Clone, Copy)]
pub struct Cells<'c> {
    /// For each cell and constraint, the domain of the cell, if it has one.
    pub domains: &'c [Vec<Option<usize>>],
    /// The number of domains, of all constraints.
    pub domain_count: usize,
    /// The number of constraints.
    pub constraints: usize,
}

/// Constraints as trees of domains.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// The constraints of each of the two trees.
    pub trees: [Vec<usize>; 2],
    /// The constraints in neither tree, because they overlap constraints of both.
    pub left_out: Vec<usize>,
}

/// A network through the domains of both trees.
#[derive(Debug)]
pub struct TreeNetwork {
    /// The network: first an arc for each domain of the trees, then an arc for each cell.
    pub network: Network,
    /// The domain of each of the first arcs.
    pub domain_of: Vec<usize>,
}

impl Cells<'_> {
    /// Returns the number of cells in each domain.
    fn in_each(&self) -> Vec<usize> {
        let mut counts = vec![0_usize; self.domain_count];
        for domain in self.domains.iter().flatten().flatten() {
            counts[*domain] += 1;
        }
        counts
    }
}

impl Sides {
    /// Returns the trees for these cells. Each constraint is in the first tree that it fits.
    pub fn of(cells: Cells<'_>) -> Self {
        let in_each = cells.in_each();
        let nests = |one: usize, other: usize| {
            let mut shared: HashMap<(usize, usize), usize> = HashMap::new();
            for domains in cells.domains {
                if let (Some(a), Some(b)) = (domains[one], domains[other]) {
                    *shared.entry((a, b)).or_default() += 1;
                }
            }
            let mut shared = shared.into_iter();
            shared.all(|((a, b), cells)| cells == in_each[a] || cells == in_each[b])
        };
        let mut sides = Self::default();
        for constraint in 0..cells.constraints {
            let mut trees = sides.trees.iter_mut();
            let tree = trees.find(|tree| tree.iter().all(|other| nests(constraint, *other)));
            tree.unwrap_or(&mut sides.left_out).push(constraint);
        }
        sides
    }

    /// The network from the largest domains of one tree to its smallest, through the cells, and
    /// from the smallest domains of the other tree to its largest. `sizes` has the most units for
    /// each cell.
    pub fn network(&self, cells: Cells<'_>, sizes: &[usize]) -> TreeNetwork {
        let in_each = cells.in_each();
        let mut ends = vec![None; cells.domain_count];
        let mut capacities = vec![0_usize; cells.domain_count];
        let vertex = |domain: usize| 2 + domain;
        let mut through = Vec::with_capacity(sizes.len());
        for (domains, size) in cells.domains.iter().zip(sizes) {
            let [above, below] = [0, 1].map(|tree: usize| {
                let all = self.trees[tree].iter();
                let mut all: Vec<usize> = all.filter_map(|it| domains[*it]).collect();
                all.sort_by_key(|domain| (Reverse(in_each[*domain]), *domain));
                all
            });
            for domain in above.iter().chain(&below) {
                capacities[*domain] = capacities[*domain].saturating_add(*size);
            }
            let mut outer = SOURCE;
            for domain in above {
                ends[domain] = Some((outer, vertex(domain)));
                outer = vertex(domain);
            }
            let mut inner = SINK;
            for domain in below {
                ends[domain] = Some((vertex(domain), inner));
                inner = vertex(domain);
            }
            through.push(FlowArc {
                from: outer,
                to: inner,
                capacity: *size,
                flow: 0,
            });
        }
        let (mut arcs, mut domain_of) = (Vec::new(), Vec::new());
        for (domain, ends) in ends.into_iter().enumerate() {
            let Some((from, to)) = ends else { continue };
            domain_of.push(domain);
            arcs.push(FlowArc {
                from,
                to,
                capacity: capacities[domain],
                flow: 0,
            });
        }
        arcs.extend(through);
        TreeNetwork {
            network: Network::new(2 + cells.domain_count, arcs),
            domain_of,
        }
    }
}

impl TreeNetwork {
    /// Returns the units that go through each cell.
    pub fn flows(&self) -> Vec<usize> {
        let cells = &self.network.arcs[self.domain_of.len()..];
        cells.iter().map(|arc| arc.flow).collect()
    }
}
