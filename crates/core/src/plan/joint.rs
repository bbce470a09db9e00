//! Places many pods jointly: if placing them one by one leaves some without a node, the nodes and
//! their order are planned together.

use super::best_scored;
use super::levels::{LevelFlows, PlanPart};
use super::search;
use crate::snapshot::{Deadline, Stopped};
use crate::spread::place::{Outlook, PlannedPicker};
use crate::spread::{Outcome, Picker, PlaceOptions, Report, SkewRule};

/// A picker that plans jointly if pods remain without a node otherwise.
#[derive(Debug)]
struct JointPlacer<P> {
    placer: P,
}

/// The picker that the options ask for: it picks one by one, or plans all picks jointly.
pub fn picker<P: PlannedPicker + 'static>(placer: P, options: &PlaceOptions) -> Box<dyn Picker> {
    match options.jointly {
        true => Box::new(JointPlacer { placer }),
        false => Box::new(placer),
    }
}

/// Picks as many pods as a joint plan does, and bounds their number, whatever the scores.
pub fn most_picks<P: PlannedPicker>(
    placer: &mut P,
    with_steps: bool,
    deadline: &Deadline<'_>,
) -> Result<Outcome, Stopped> {
    let start = placer.clone();
    let mut best = placer.run(with_steps, deadline)?;
    let mut bound = best.picks.len();
    if best.unplaced > 0 {
        let mut outlook = start.outlook();
        let (parts, most) = plan(&mut outlook, best.picks.len(), deadline)?;
        let parts: Vec<_> = parts.iter().map(|part| outlook.picks(part)).collect();
        let mut other = start.clone();
        let outcome = match parts.is_empty() {
            true => Outcome::default(),
            false => other.run_along(&parts, with_steps, deadline)?,
        };
        if outcome.picks.len() > best.picks.len() {
            (*placer, best) = (other, outcome);
        }
        bound = most.max(best.picks.len());
    }
    best.bound = Some(bound);
    Ok(best)
}

impl<P: PlannedPicker> Picker for JointPlacer<P> {
    fn run(&mut self, with_steps: bool, deadline: &Deadline<'_>) -> Result<Outcome, Stopped> {
        let start = self.placer.clone();
        let mut best = most_picks(&mut self.placer, with_steps, deadline)?;
        let picks = i64::try_from(best.picks.len()).unwrap_or(i64::MAX);
        best.total_bound = Some(start.highest_total().saturating_mul(picks));
        if best.total_bound != Some(best.total)
            && let Some(found) = best_scored::picks(&start, best.picks.len(), deadline)?
        {
            let mut placer = start;
            let outcome = placer.run_along(&found, with_steps, deadline)?;
            if outcome.picks.len() == best.picks.len() && outcome.total > best.total {
                let bound = best.bound;
                (self.placer, best) = (placer, Outcome { bound, ..outcome });
            }
            best.total_bound = Some(best.total);
        }
        Ok(best)
    }

    fn step_scores(&self) -> usize {
        self.placer.step_scores()
    }

    fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.placer.reports(max_domains)
    }
}

/// A plan with more picks than the `known` one, and the most pods that any plan can place. The plan
/// has no parts if there is no such plan.
fn plan(
    outlook: &mut Outlook<'_>,
    known: usize,
    deadline: &Deadline<'_>,
) -> Result<(Vec<PlanPart>, usize), Stopped> {
    let mut bound = room(outlook);
    if outlook.beside == 0 {
        let (smallest, picks) = reachable(outlook, deadline)?;
        bound = picks;
        let rules = rules(outlook, &smallest);
        outlook.limit_rooms(&rules);
    }
    let outlook = &*outlook;
    let mut parts = Vec::new();
    if known < bound {
        parts = LevelFlows::of(outlook, deadline).plan()?;
    }
    let size = parts.iter().flatten().map(|(_, times)| times).sum();
    if known.max(size) < bound
        && let Some(found) = search::longest(outlook, bound, deadline)?
    {
        if outlook.beside == 0 {
            bound = found.len();
        }
        if found.len() > size {
            parts = found.into_iter().map(|cell| vec![(cell, 1)]).collect();
        }
    }
    Ok((parts, bound))
}

/// Upper bounds of what any plan reaches: the smallest count of each constraint, and the number of
/// picks.
///
/// Raises the smallest count of each constraint in turn, as far as the constraints allow with the
/// present smallest counts of the others. No plan gets further: the first smallest count that it
/// raised beyond these would have to be raised from these counts.
fn reachable(outlook: &Outlook<'_>, deadline: &Deadline<'_>) -> Result<(Vec<u32>, usize), Stopped> {
    let flows = LevelFlows::of(outlook, deadline);
    let mut picks = room(outlook);
    loop {
        let highest = highest(outlook, picks);
        let smallest = raised(outlook, &flows, &highest)?;
        let fitting = flows.fitting(&rules(outlook, &smallest))?;
        if fitting >= picks {
            return Ok((smallest, picks));
        }
        // With fewer picks the smallest counts may stay lower, which may allow even fewer picks.
        picks = fitting;
    }
}

/// Returns the number of picks that the room of nodes allows.
fn room(outlook: &Outlook<'_>) -> usize {
    let rooms = outlook.cells.iter().map(|cell| cell.room);
    let room = rooms.fold(outlook.beside, usize::saturating_add);
    outlook.wanted.min(room)
}

/// The number to which the smallest count of each constraint can be raised, at most `highest`.
fn raised(
    outlook: &Outlook<'_>,
    flows: &LevelFlows<'_>,
    highest: &[u32],
) -> Result<Vec<u32>, Stopped> {
    let counts = outlook.constraints.iter().map(|it| it.counts.iter());
    let smallest = counts.map(|counts| counts.flatten().min().copied().unwrap_or(0));
    let mut smallest: Vec<u32> = smallest.collect();
    loop {
        let before = smallest.clone();
        for constraint in 0..smallest.len() {
            let reaches = |count: u32| {
                let mut at = smallest.clone();
                at[constraint] = count - 1;
                flows.reaches(&rules(outlook, &at), constraint, count)
            };
            let range = (smallest[constraint], highest[constraint]);
            smallest[constraint] = most(range, reaches)?;
        }
        if before == smallest {
            return Ok(smallest);
        }
    }
}

/// The largest number from `start` to `end` that is reached; `start` is reached.
fn most(
    (start, end): (u32, u32),
    reaches: impl Fn(u32) -> Result<bool, Stopped>,
) -> Result<u32, Stopped> {
    let (mut reached, mut missed) = (start, end.max(start).saturating_add(1));
    while missed - reached > 1 {
        let middle = match missed > end {
            // The end is tried first, because it is usually reached.
            true => end,
            false => reached + (missed - reached) / 2,
        };
        match reaches(middle)? {
            true => reached = middle,
            false => missed = middle,
        }
    }
    Ok(reached)
}

/// An upper bound of the smallest count of each constraint after this many picks, by the room of
/// nodes and by the average count of the domains.
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

/// The rule of each constraint at its smallest count.
fn rules(outlook: &Outlook<'_>, smallest: &[u32]) -> Vec<SkewRule> {
    let constraints = outlook.constraints.iter().zip(smallest);
    constraints
        .map(|(it, smallest)| it.constraint.rule_at(Some(*smallest)))
        .collect()
}
