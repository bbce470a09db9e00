//! Places many pods jointly: where one after the other leaves some without a node, the
//! nodes and their order are planned together.

use super::levels;
use super::search;
use crate::spread::place::{Outlook, Placer};
use crate::spread::{Outcome, Picker, Report, SkewRule};

/// Places jointly what does not fit otherwise.
#[derive(Debug)]
pub struct JointPlacer {
    placer: Placer,
}

/// How many picks are few enough to find out how high smallest counts can get.
const FEW: usize = 2_000;

/// Picks by cell, part by part. Those of a part are accepted in any order.
type Parts = Vec<Vec<usize>>;

/// A plan for what is wanted.
struct JointPlan {
    parts: Parts,
    /// The most that any plan places.
    bound: usize,
}

impl JointPlacer {
    /// Places with what was gathered for placing one after the other.
    pub fn of(placer: Placer) -> Self {
        Self { placer }
    }
}

impl Picker for JointPlacer {
    fn run(&mut self, with_steps: bool, cancelled: &dyn Fn() -> bool) -> Option<Outcome> {
        let start = self.placer.clone();
        let mut best = self.placer.run(with_steps, cancelled)?;
        let mut bound = best.picks.len();
        if best.unplaced > 0 {
            let outlook = start.outlook();
            let plan = JointPlan::of(&outlook, cancelled)?;
            let parts: Vec<_> = plan.parts.into_iter().map(|it| outlook.picks(it)).collect();
            let mut placer = start.clone();
            let outcome = placer.run_along(&parts, cancelled)?;
            if outcome.picks.len() > best.picks.len() {
                (self.placer, best) = (placer, outcome);
            }
            bound = plan.bound.max(best.picks.len());
        }
        best.bound = Some(bound);
        Some(best)
    }

    fn step_scores(&self) -> usize {
        self.placer.step_scores()
    }

    fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.placer.reports(max_domains)
    }
}

impl JointPlan {
    fn of(outlook: &Outlook<'_>, cancelled: &dyn Fn() -> bool) -> Option<Self> {
        let mut bound = bound(outlook, cancelled)?;
        let mut parts = levels::plan(outlook, cancelled)?;
        if size(&parts) < bound
            && let Some(found) = search::longest(outlook, bound, cancelled)?
        {
            if outlook.beside == 0 {
                bound = found.len();
            }
            if found.len() > size(&parts) {
                let one = |cell: usize| {
                    let mut picks = vec![0; outlook.cells.len()];
                    picks[cell] = 1;
                    picks
                };
                parts = found.into_iter().map(one).collect();
            }
        }
        Some(Self { parts, bound })
    }
}

fn size(parts: &Parts) -> usize {
    parts.iter().flatten().sum()
}

/// A number that no plan exceeds: what fits by the room of nodes and by all constraints,
/// were each smallest count as high as it can get. `None` when `cancelled` said so.
fn bound(outlook: &Outlook<'_>, cancelled: &dyn Fn() -> bool) -> Option<usize> {
    let rooms = outlook.cells.iter().map(|cell| cell.room);
    let room = rooms.fold(outlook.beside, usize::saturating_add);
    let mut bound = outlook.wanted.min(room);
    if outlook.beside > 0 {
        return Some(bound);
    }
    let mut smallest = highest(outlook, bound);
    loop {
        let before = (bound, smallest.clone());
        if bound <= FEW {
            for constraint in 0..smallest.len() {
                let rules = rules(outlook, &smallest);
                let reaches = |smallest| {
                    let wanted = (constraint, smallest);
                    levels::reaches(outlook, &rules, wanted, cancelled)
                };
                smallest[constraint] = most(smallest[constraint], reaches)?;
            }
        }
        bound = bound.min(levels::fitting(
            outlook,
            &rules(outlook, &smallest),
            cancelled,
        )?);
        // Fewer picks leave the smallest counts lower, and those leave fewer picks.
        for (known, highest) in smallest.iter_mut().zip(highest(outlook, bound)) {
            *known = highest.min(*known);
        }
        if before == (bound, smallest.clone()) {
            return Some(bound);
        }
    }
}

/// The most up to `most` that is reached; 0 always is. `None` when that is not known.
fn most(most: u32, reaches: impl Fn(u32) -> Option<bool>) -> Option<u32> {
    let (mut reached, mut missed) = (0, most.saturating_add(1));
    while missed - reached > 1 {
        let middle = match missed > most {
            // Mostly it is as high as it seems.
            true => most,
            false => reached + (missed - reached) / 2,
        };
        match reaches(middle)? {
            true => reached = middle,
            false => missed = middle,
        }
    }
    Some(reached)
}

/// By constraint: how high so many picks can bring its smallest count, by the room of
/// nodes and because they are shared by all domains.
fn highest(outlook: &Outlook<'_>, picks: usize) -> Vec<u32> {
    let constraints = outlook.constraints.iter().enumerate();
    let highest = constraints.map(|(index, constraint)| {
        let mut fullest = constraint.counts.clone();
        for cell in outlook.cells.iter().filter(|cell| cell.counts[index]) {
            if let Some(count) = &mut fullest[cell.judged_by[index]] {
                *count = count.saturating_add(u32::try_from(cell.room).unwrap_or(u32::MAX));
            }
        }
        let counts = constraint.counts.iter().flatten();
        let domains = counts.clone().count().max(1);
        let all = counts.fold(picks, |sum, count| sum.saturating_add(*count as usize));
        let average = u32::try_from(all / domains).unwrap_or(u32::MAX);
        let least = fullest.iter().flatten().min();
        least.map_or(0, |least| average.min(*least))
    });
    highest.collect()
}

/// By constraint: what it accepts at this smallest count.
fn rules(outlook: &Outlook<'_>, smallest: &[u32]) -> Vec<SkewRule> {
    let constraints = outlook.constraints.iter().zip(smallest);
    constraints
        .map(|(constraint, smallest)| constraint.rule(&[Some(*smallest)]))
        .collect()
}
