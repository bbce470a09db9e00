//! Flows of least cost, by successive shortest paths. The cost of one more unit on an arc never
//! falls. Each round uses the cheapest ways for all units that cost the same.
//!
//! Constraints whose domains are disjoint or contain one another form a tree of domains. With two
//! trees a choice becomes a flow problem.
//!
//! A choice of the pods that go is one: pods that no constraint distinguishes are in one cell, and the
//! number of pods to remove of each cell is a flow of least cost through the domains. If some constraints
//! do not fit into two trees, single pods are exchanged after that.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::ops::{Add, Neg};

use crate::snapshot::{Deadline, Stopped};

/// A cost, the most important part first. Less is better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanCost(pub [i64; 3]);

impl PlanCost {
    /// A cost that is more than that of any way.
    pub const MOST: Self = Self([i64::MAX; 3]);
}

impl Add for PlanCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let [a, b, c] = self.0;
        let [x, y, z] = other.0;
        Self([
            a.saturating_add(x),
            b.saturating_add(y),
            c.saturating_add(z),
        ])
    }
}

impl Neg for PlanCost {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.map(i64::saturating_neg))
    }
}

/// An arc from one vertex to another.
#[derive(Debug, Clone, Copy)]
pub struct FlowArc {
    /// The vertex where the arc begins.
    pub from: usize,
    /// The vertex where the arc ends.
    pub to: usize,
    /// The most units on the arc.
    pub capacity: usize,
    /// The units on the arc.
    pub flow: usize,
}

impl FlowArc {
    /// Returns how many units, up to `most`, the arc takes more, or gives back, at the same cost as
    /// the first unit.
    fn alike(&self, is_more: bool, most: usize, cost: &dyn Fn(usize) -> PlanCost) -> usize {
        let units = match is_more {
            true => self.capacity - self.flow,
            false => self.flow,
        };
        // The flow that determines the cost of the last of this many units.
        let before = |units: usize| match is_more {
            true => self.flow + units - 1,
            false => self.flow - units,
        };
        let first = cost(before(1));
        let (mut alike, mut other) = (1, units.min(most) + 1);
        while other - alike > 1 {
            let middle = alike + (other - alike) / 2;
            match cost(before(middle)) == first {
                true => alike = middle,
                false => other = middle,
            }
        }
        alike
    }
}

/// Vertices and arcs, with a flow.
#[derive(Debug)]
pub struct Network {
    /// The arcs.
    pub arcs: Vec<FlowArc>,
    /// The arcs that begin at each vertex; `into` has those that end there.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    /// The number of arcs that were looked at to send units.
    pub looked_at: usize,
}

/// A step of a way: adds units to an arc, or takes some back.
struct FlowStep {
    arc: usize,
    is_more: bool,
}

/// The known facts about the cheapest ways from a vertex.
struct CheapestWays {
    /// The cost of the cheapest way to each vertex.
    costs: Vec<Option<PlanCost>>,
    /// For each vertex, true if the present way goes through it, or no cheapest way leads on from
    /// it.
    passed: Vec<bool>,
    /// For each vertex, the number of its first steps that lead to no cheapest way.
    tried: Vec<usize>,
}

impl Network {
    /// A network with this number of vertices.
    pub fn new(vertices: usize, arcs: Vec<FlowArc>) -> Self {
        let (mut out, mut into) = (vec![Vec::new(); vertices], vec![Vec::new(); vertices]);
        for (index, arc) in arcs.iter().enumerate() {
            out[arc.from].push(index);
            into[arc.to].push(index);
        }
        Self {
            arcs,
            out,
            into,
            looked_at: 0,
        }
    }

    /// Returns a number that no flow from one vertex to another exceeds.
    pub fn most(&self, from: usize, to: usize) -> usize {
        let all = |arcs: &[usize]| {
            let capacities = arcs.iter().map(|arc| self.arcs[*arc].capacity);
            capacities.fold(0, usize::saturating_add)
        };
        all(&self.out[from]).min(all(&self.into[to]))
    }

    /// Sends up to `most` more units from one vertex to another by cheapest ways, as long as the
    /// units cost the same. Ways may take back other units. `cost` returns the cost of one more
    /// unit on an arc with this flow. Only ways that cost less than `below` are used. Returns the
    /// number of sent units.
    pub fn send(
        &mut self,
        (from, to): (usize, usize),
        most: usize,
        cost: &dyn Fn(usize, usize) -> PlanCost,
        below: PlanCost,
    ) -> usize {
        let costs = self.cheapest(from, cost);
        if costs[to].is_none_or(|cost| cost >= below) {
            return 0;
        }
        let mut ways = CheapestWays {
            costs,
            passed: vec![false; self.out.len()],
            tried: vec![0; self.out.len()],
        };
        let mut sent = 0;
        while sent < most
            && let Some(way) = self.way((from, to), cost, &mut ways)
        {
            let units = way.iter().fold(most - sent, |units, step| {
                self.arcs[step.arc].alike(step.is_more, units, &|flow| cost(step.arc, flow))
            });
            for step in way {
                let arc = &mut self.arcs[step.arc];
                match step.is_more {
                    true => arc.flow += units,
                    false => arc.flow -= units,
                }
            }
            sent += units;
        }
        sent
    }

    /// The cost of the cheapest way to each vertex, if there is a way.
    fn cheapest(
        &mut self,
        from: usize,
        cost: &dyn Fn(usize, usize) -> PlanCost,
    ) -> Vec<Option<PlanCost>> {
        // Arcs can have negative costs. But no cycle has, because each flow is the best of its
        // size.
        let mut best: Vec<Option<PlanCost>> = vec![None; self.out.len()];
        let mut is_queued = vec![false; self.out.len()];
        let mut queue = VecDeque::from([from]);
        best[from] = Some(PlanCost::default());
        while let Some(at) = queue.pop_front() {
            is_queued[at] = false;
            let so_far = best[at].expect("what is queued was reached");
            self.looked_at += self.out[at].len() + self.into[at].len();
            for nth in 0..self.out[at].len() + self.into[at].len() {
                let Some((_, next, step)) = self.step(at, nth, cost) else {
                    continue;
                };
                let cost = so_far + step;
                if best[next].is_none_or(|known| cost < known) {
                    best[next] = Some(cost);
                    if !std::mem::replace(&mut is_queued[next], true) {
                        queue.push_back(next);
                    }
                }
            }
        }
        best
    }

    /// Finds a cheapest way. It is always found if nothing was sent yet with these `ways`; after
    /// that some may be missed.
    fn way(
        &mut self,
        (from, to): (usize, usize),
        cost: &dyn Fn(usize, usize) -> PlanCost,
        ways: &mut CheapestWays,
    ) -> Option<Vec<FlowStep>> {
        let mut way: Vec<(usize, FlowStep)> = Vec::new();
        let mut at = from;
        ways.passed[from] = true;
        while at != to {
            let steps = self.out[at].len() + self.into[at].len();
            let start = ways.tried[at];
            let cheapest = (start..steps).find_map(|nth| {
                let (step, next, added) = self.step(at, nth, cost)?;
                let costs = ways.costs[at].map(|so_far| so_far + added);
                let leads_on = !ways.passed[next] && costs == ways.costs[next];
                leads_on.then_some((nth, step, next))
            });
            ways.tried[at] = cheapest.as_ref().map_or(steps, |(nth, ..)| *nth);
            self.looked_at += 1 + ways.tried[at] - start;
            match cheapest {
                Some((_, step, next)) => {
                    way.push((at, step));
                    ways.passed[next] = true;
                    at = next;
                }
                // No cheapest way leads on from this vertex, so it stays marked.
                None => (at, _) = way.pop()?,
            }
        }
        ways.passed[to] = false;
        for (vertex, _) in &way {
            ways.passed[*vertex] = false;
        }
        Some(way.into_iter().map(|(_, step)| step).collect())
    }

    /// The `nth` step from a vertex, the vertex to which it leads, and its cost. `None` when the
    /// arc has no room, or nothing to take back.
    fn step(
        &self,
        at: usize,
        nth: usize,
        cost: &dyn Fn(usize, usize) -> PlanCost,
    ) -> Option<(FlowStep, usize, PlanCost)> {
        let outward = self.out[at].get(nth);
        let arc = *outward.unwrap_or_else(|| &self.into[at][nth - self.out[at].len()]);
        let is_more = outward.is_some();
        let FlowArc {
            from,
            to,
            capacity,
            flow,
        } = self.arcs[arc];
        let step = FlowStep { arc, is_more };
        match is_more {
            true => (flow < capacity).then(|| (step, to, cost(arc, flow))),
            false => (flow > 0).then(|| (step, from, -cost(arc, flow - 1))),
        }
    }
}

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

impl Choice {
    /// Chooses `count` pods: so many of each cell. The flag is true if no other choice is better.
    pub fn choose(
        &self,
        count: usize,
        deadline: &Deadline<'_>,
    ) -> Result<(Vec<usize>, bool), Stopped> {
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
        Ok((removed, optimal))
    }

    /// The cells of the pods that go, so many of each cell, in the order in which these go. The next is
    /// always the pod whose removal costs least.
    pub fn in_order(
        &self,
        removed: &[usize],
        deadline: &Deadline<'_>,
    ) -> Result<Vec<usize>, Stopped> {
        let mut taken = vec![0; self.cells.len()];
        let mut left = vec![0; self.domains.len()];
        let mut order = Vec::new();
        let worst = |taken: &[usize], left: &[usize]| {
            let cells = self.cells.iter().enumerate();
            let waiting = cells.filter(|(index, _)| taken[*index] < removed[*index]);
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
