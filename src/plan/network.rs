//! Flows of least cost, where the cost of one more unit on an arc never falls: the
//! cheapest ways are taken for as many units as cost the same, again and again.

use std::collections::VecDeque;
use std::ops::{Add, Neg};

/// The cost of a choice, the most important part first. Less is better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanCost(pub [i64; 3]);

impl PlanCost {
    /// More than any way costs.
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

/// A way from one vertex to another.
#[derive(Debug, Clone, Copy)]
pub struct FlowArc {
    /// The vertex where the arc begins.
    pub from: usize,
    /// The vertex where the arc ends.
    pub to: usize,
    /// The most units that it takes.
    pub capacity: usize,
    /// The units on it.
    pub flow: usize,
}

impl FlowArc {
    /// Returns how many units, up to `most`, it takes more, or fewer, at the cost of the first one.
    fn alike(&self, is_more: bool, most: usize, cost: &dyn Fn(usize) -> PlanCost) -> usize {
        let units = match is_more {
            true => self.capacity - self.flow,
            false => self.flow,
        };
        // The flow before the last of so many units.
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
    /// By vertex: the arcs that begin there, then those that end there.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    /// How many arcs were looked at to send units.
    pub looked_at: usize,
}

/// More units on an arc, or fewer.
struct FlowStep {
    arc: usize,
    is_more: bool,
}

/// What is known of the ways that cost least.
struct CheapestWays {
    /// By vertex: what a way there costs.
    costs: Vec<Option<PlanCost>>,
    /// By vertex: whether the way goes through it, or no way leads on from it.
    passed: Vec<bool>,
    /// By vertex: how many of its steps lead nowhere.
    tried: Vec<usize>,
}

impl Network {
    /// A network of so many vertices.
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

    /// Sends more units from one vertex to another as cheaply as possible, also by taking
    /// back others: up to `most`, as long as they cost the same. `cost` is what one unit more
    /// costs on an arc that has so many. Nothing is sent where there is no way that costs less
    /// than `below`. Returns how many were sent.
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

    /// By vertex: what the cheapest way there costs, if there is one.
    fn cheapest(
        &mut self,
        from: usize,
        cost: &dyn Fn(usize, usize) -> PlanCost,
    ) -> Vec<Option<PlanCost>> {
        // Arcs have negative costs, and no circle has: each flow is the best of its size.
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

    /// A way on which each step is the cheapest one to where it leads. Of the ways that are left
    /// some are missed, but none of them is while nothing was sent.
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
                // Nothing leads on from here: it stays passed.
                None => (at, _) = way.pop()?,
            }
        }
        ways.passed[to] = false;
        for (vertex, _) in &way {
            ways.passed[*vertex] = false;
        }
        Some(way.into_iter().map(|(_, step)| step).collect())
    }

    /// One of the steps from a vertex, where it leads and what it costs; `None` when the arc
    /// takes nothing more that way.
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
