//! Plans picks level by level. As long as no smallest count changes, what constraints
//! accept is a flow problem, and the order of the picks means nothing. So each part of
//! a plan is a flow that raises smallest counts, and the last one is as large as
//! possible.

use super::network::PlanCost;
use super::sides::{Cells, SINK, SOURCE, Sides, TreeNetwork};
use super::standing::PickStanding;
use crate::spread::SkewRule;
use crate::spread::place::Outlook;

/// Less than all costs whose most important part is nothing.
const LESS_THAN_NOTHING: PlanCost = PlanCost([0, i64::MIN, i64::MIN]);

/// What the flows of a plan have in common.
struct LevelFlows<'o> {
    outlook: &'o Outlook<'o>,
    sides: Sides,
    /// By constraint: the number of its first domain.
    first: Vec<usize>,
    domain_count: usize,
}

/// Picks by cell, part by part; nothing where the domains of constraints make no two
/// trees. `None` when `cancelled` said so.
pub fn plan(outlook: &Outlook<'_>, cancelled: &dyn Fn() -> bool) -> Option<Vec<Vec<usize>>> {
    let levels = LevelFlows::of(outlook);
    let mut parts = Vec::new();
    if !levels.sides.left_out.is_empty() {
        return Some(parts);
    }
    let mut standing = PickStanding::of(outlook);
    loop {
        let rules = standing.rules();
        let none = vec![0; levels.domain_count];
        let most = levels.flow(&standing, &rules, &none, cancelled)?.flows();
        let reaches_all = most.iter().sum::<usize>() >= standing.left;
        let raising = match reaches_all {
            true => None,
            false => levels.raising(&standing, &rules, cancelled)?,
        };
        let is_last = raising.is_none();
        let part = raising.unwrap_or(most);
        for (cell, times) in part.iter().enumerate() {
            standing.pick(cell, *times);
        }
        parts.push(part);
        if is_last || standing.left == 0 {
            return Some(parts);
        }
    }
}

/// Returns how many picks constraints accept by these rules, in all; all that are wanted where
/// their domains make no two trees. `None` when `cancelled` said so.
pub fn fitting(
    outlook: &Outlook<'_>,
    rules: &[SkewRule],
    cancelled: &dyn Fn() -> bool,
) -> Option<usize> {
    let levels = LevelFlows::of(outlook);
    if !levels.sides.left_out.is_empty() {
        return Some(outlook.wanted);
    }
    let none = vec![0; levels.domain_count];
    let flow = levels.flow(&PickStanding::of(outlook), rules, &none, cancelled)?;
    Some(flow.flows().iter().sum())
}

/// Returns whether picks that constraints accept by these rules can bring the counts of all
/// domains of one of them to at least `smallest`. `None` when `cancelled` said so.
pub fn reaches(
    outlook: &Outlook<'_>,
    rules: &[SkewRule],
    (constraint, smallest): (usize, u32),
    cancelled: &dyn Fn() -> bool,
) -> Option<bool> {
    let levels = LevelFlows::of(outlook);
    if !levels.sides.left_out.is_empty() {
        return Some(true);
    }
    let mut wanted = vec![0; levels.domain_count];
    let first = levels.first[constraint];
    for (domain, count) in outlook.constraints[constraint].counts.iter().enumerate() {
        let missing = count.map_or(0, |count| smallest.saturating_sub(count));
        wanted[first + domain] = missing as usize;
    }
    let flow = levels.flow(&PickStanding::of(outlook), rules, &wanted, cancelled)?;
    let arcs = flow.domain_of.iter().zip(&flow.network.arcs);
    for (domain, arc) in arcs {
        wanted[*domain] = wanted[*domain].saturating_sub(arc.flow);
    }
    Some(wanted.iter().all(|missing| *missing == 0))
}

impl<'o> LevelFlows<'o> {
    fn of(outlook: &'o Outlook<'o>) -> Self {
        let mut domain_count = 0;
        let first = outlook.constraints.iter().map(|constraint| {
            let first = domain_count;
            domain_count += constraint.counts.len();
            first
        });
        let mut levels = Self {
            first: first.collect(),
            domain_count: 0,
            sides: Sides::default(),
            outlook,
        };
        levels.domain_count = domain_count;
        levels.sides = Sides::of(levels.cells(&levels.domains()));
        levels
    }

    fn cells<'c>(&self, domains: &'c [Vec<Option<usize>>]) -> Cells<'c> {
        Cells {
            domains,
            domain_count: self.domain_count,
            constraints: self.first.len(),
        }
    }

    /// By cell and constraint: the domain in which picks count.
    fn domains(&self) -> Vec<Vec<Option<usize>>> {
        let cells = self.outlook.cells.iter().map(|cell| {
            let judged_by = cell.judged_by.iter().zip(&cell.counts).zip(&self.first);
            let domains = judged_by.map(|((domain, counts), first)| counts.then(|| first + domain));
            domains.collect()
        });
        cells.collect()
    }

    /// Picks after which the smallest count of some constraint is higher.
    fn raising(
        &self,
        standing: &PickStanding<'_>,
        rules: &[SkewRule],
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Option<Vec<usize>>> {
        let all = 0..self.first.len();
        let each = all.clone().map(|constraint| vec![constraint]);
        for wanted in std::iter::once(all.collect()).chain(each) {
            let mut pods = vec![0; self.domain_count];
            for constraint in wanted {
                for domain in standing.holding(constraint) {
                    pods[self.first[constraint] + domain] = 1;
                }
            }
            let part = self.flow(standing, rules, &pods, cancelled)?.flows();
            let mut after = standing.clone();
            for (cell, times) in part.iter().enumerate() {
                after.pick(cell, *times);
            }
            let raised = after
                .rules()
                .iter()
                .zip(rules)
                .any(|(now, then)| now != then);
            if raised {
                return Some(Some(part));
            }
        }
        Some(None)
    }

    /// Picks that constraints accept by these rules: as many as possible, or, where
    /// so many pods are `wanted` in some domains, those that bring them there.
    fn flow(
        &self,
        standing: &PickStanding<'_>,
        rules: &[SkewRule],
        wanted: &[usize],
        cancelled: &dyn Fn() -> bool,
    ) -> Option<TreeNetwork> {
        let sizes = (0..self.outlook.cells.len()).map(|cell| match standing.admits(rules, cell) {
            true => standing.room[cell].min(standing.left),
            false => 0,
        });
        let sizes: Vec<usize> = sizes.collect();
        let domains = self.domains();
        let mut trees = self.sides.network(self.cells(&domains), &sizes);
        self.limit(&mut trees, standing, rules);
        let TreeNetwork { network, domain_of } = &mut trees;
        let cost = |arc: usize, flow: usize| match arc.checked_sub(domain_of.len()) {
            // Rather from cells with much room.
            Some(cell) => {
                let used = i64::try_from(flow).unwrap_or(i64::MAX);
                let room = i64::try_from(sizes[cell]).unwrap_or(i64::MAX);
                PlanCost([0, used - room, 0])
            }
            None if flow < wanted[domain_of[arc]] => PlanCost([-1, 0, 0]),
            None => PlanCost::default(),
        };
        let below = match wanted.iter().all(|pods| *pods == 0) {
            true => PlanCost::MOST,
            false => LESS_THAN_NOTHING,
        };
        let mut sent = 0;
        while sent < standing.left && network.send(SOURCE, SINK, &cost, below) {
            sent += 1;
            if cancelled() {
                return None;
            }
        }
        Some(trees)
    }

    /// Has domains take no more than constraints accept.
    fn limit(&self, trees: &mut TreeNetwork, standing: &PickStanding<'_>, rules: &[SkewRule]) {
        for (arc, number) in trees.domain_of.iter().enumerate() {
            let constraint = self.first.partition_point(|first| first <= number) - 1;
            let domain = number - self.first[constraint];
            let takes = standing.takes(rules[constraint], constraint, domain);
            let arc = &mut trees.network.arcs[arc];
            arc.capacity = arc.capacity.min(takes);
        }
    }
}
