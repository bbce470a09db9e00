//! Flows of least cost, where the cost of one more unit on an arc never falls: the
//! cheapest path is taken for one unit after the other.

use std::collections::VecDeque;
use std::ops::{Add, Neg};

/// What a choice costs, the most important first. Less is better.
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
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// The most units that it takes.
    pub capacity: usize,
    /// The units on it.
    pub flow: usize,
}

/// Vertices and arcs, with a flow.
#[derive(Debug)]
pub struct Network {
    /// The arcs.
    pub arcs: Vec<FlowArc>,
    /// By vertex: the arcs that begin there, then those that end there.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
}

impl Network {
    /// A network of so many vertices.
    pub fn new(vertices: usize, arcs: Vec<FlowArc>) -> Self {
        let (mut out, mut into) = (vec![Vec::new(); vertices], vec![Vec::new(); vertices]);
        for (index, arc) in arcs.iter().enumerate() {
            out[arc.from].push(index);
            into[arc.to].push(index);
        }
        Self { arcs, out, into }
    }

    /// Sends one more unit from one vertex to another as cheaply as possible, also by
    /// taking back others. `cost` is what one unit more costs on an arc that has so
    /// many. Nothing is sent where there is no way that costs less than `below`. Whether
    /// it was sent.
    pub fn send(
        &mut self,
        from: usize,
        to: usize,
        cost: &dyn Fn(usize, usize) -> PlanCost,
        below: PlanCost,
    ) -> bool {
        // Arcs have negative costs, and no circle has: each flow is the best of its size.
        let mut best: Vec<Option<PlanCost>> = vec![None; self.out.len()];
        let mut came_by: Vec<Option<(usize, bool)>> = vec![None; self.out.len()];
        let mut is_queued = vec![false; self.out.len()];
        let mut queue = VecDeque::from([from]);
        best[from] = Some(PlanCost::default());
        while let Some(at) = queue.pop_front() {
            is_queued[at] = false;
            let so_far = best[at].expect("what is queued was reached");
            let more = self.out[at].iter().filter_map(|index| {
                let arc = &self.arcs[*index];
                let added = || (arc.to, cost(*index, arc.flow), (*index, true));
                (arc.flow < arc.capacity).then(added)
            });
            let less = self.into[at].iter().filter_map(|index| {
                let arc = &self.arcs[*index];
                let taken = || (arc.from, -cost(*index, arc.flow - 1), (*index, false));
                (arc.flow > 0).then(taken)
            });
            for (next, step, by) in more.chain(less) {
                let cost = so_far + step;
                if best[next].is_none_or(|known| cost < known) {
                    best[next] = Some(cost);
                    came_by[next] = Some(by);
                    if !std::mem::replace(&mut is_queued[next], true) {
                        queue.push_back(next);
                    }
                }
            }
        }
        if best[to].is_none_or(|cost| cost >= below) {
            return false;
        }
        let mut at = to;
        while at != from {
            let (index, is_more) = came_by[at].expect("it was reached");
            let arc = &mut self.arcs[index];
            if is_more {
                arc.flow += 1;
                at = arc.from;
            } else {
                arc.flow -= 1;
                at = arc.to;
            }
        }
        true
    }
}
