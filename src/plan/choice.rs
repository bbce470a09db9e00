//! Chooses how many pods of each cell go: a flow of least cost through the domains.

use super::cells::Choice;
use super::exchange;
use super::network::{FlowArc, Network};
use super::sides::Sides;

// The vertices where units begin and end.
const SOURCE: usize = 0;
const SINK: usize = 1;

/// How many pods of each cell go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// By cell.
    pub removed: Vec<usize>,
    /// Whether no other choice is better.
    pub optimal: bool,
}

impl Choice {
    /// Chooses so many pods. It goes on as long as `affords` a piece of work.
    pub fn choose(&self, count: usize, affords: &dyn Fn(usize) -> bool) -> Chosen {
        let sides = Sides::of(self);
        let mut network = self.network(&sides);
        let first_cell = network.arcs.len() - self.cells.len();
        let pods: usize = self.cells.iter().map(|cell| cell.ranks.len()).sum();
        let count = count.min(pods);
        let domain_of: Vec<usize> = self.in_trees(&sides).collect();
        let cost = |arc: usize, flow: usize| match arc.checked_sub(first_cell) {
            Some(cell) => self.cells[cell].cost(flow),
            None => self.domains[domain_of[arc]].cost(flow),
        };
        // Whichever is less: to choose those that go, or those that stay.
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
        for _ in 0..times {
            if !affords(4 * network.arcs.len()) || !network.send(from, to, &cost) {
                break;
            }
        }
        let flows = network.arcs[first_cell..].iter();
        let mut removed: Vec<usize> = flows.map(|arc| arc.flow).collect();
        let optimal = sides.left_out.is_empty();
        if !optimal {
            exchange::improve(self, &mut removed, affords);
        }
        Chosen { removed, optimal }
    }

    /// The domains of the constraints in trees: the arcs of a network begin with
    /// theirs.
    fn in_trees(&self, sides: &Sides) -> impl Iterator<Item = usize> {
        let mut is_in = vec![false; self.domains.len()];
        for cell in &self.cells {
            for constraint in sides.trees.iter().flatten() {
                if let Some(domain) = cell.domains[*constraint] {
                    is_in[domain] = true;
                }
            }
        }
        (0..is_in.len()).filter(move |domain| is_in[*domain])
    }

    /// From the largest domains of one tree to the smallest, through the cells, to the
    /// smallest domains of the other tree and its largest.
    fn network(&self, sides: &Sides) -> Network {
        let mut ends = vec![(SOURCE, SINK); self.domains.len()];
        let mut capacities = vec![0; self.domains.len()];
        let mut cells_of = vec![0_usize; self.domains.len()];
        for cell in &self.cells {
            for domain in cell.domains.iter().flatten() {
                cells_of[*domain] += 1;
                capacities[*domain] += cell.ranks.len();
            }
        }
        let vertex = |domain: usize| 2 + domain;
        let mut cells = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let [above, below] = [0, 1].map(|tree: usize| {
                let domains = sides.trees[tree].iter();
                let mut domains: Vec<usize> = domains.filter_map(|c| cell.domains[*c]).collect();
                domains.sort_by_key(|domain| (std::cmp::Reverse(cells_of[*domain]), *domain));
                domains
            });
            let mut outer = SOURCE;
            for domain in above {
                ends[domain] = (outer, vertex(domain));
                outer = vertex(domain);
            }
            let mut inner = SINK;
            for domain in below {
                ends[domain] = (vertex(domain), inner);
                inner = vertex(domain);
            }
            cells.push(FlowArc {
                from: outer,
                to: inner,
                capacity: cell.ranks.len(),
                flow: 0,
            });
        }
        let arc = |domain: usize| FlowArc {
            from: ends[domain].0,
            to: ends[domain].1,
            capacity: capacities[domain],
            flow: 0,
        };
        let mut arcs: Vec<FlowArc> = self.in_trees(sides).map(arc).collect();
        arcs.extend(cells);
        Network::new(2 + self.domains.len(), arcs)
    }

    /// The cells of the chosen pods, one by one: each time the one whose pod is
    /// spread worst goes, as long as it `affords` that.
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
