//! Places many pods jointly: if placing them one by one leaves some without a node, the nodes and
//! their order are planned together. If there are few orders, all are tried.

use std::collections::{HashMap, HashSet};

use super::levels::{LevelFlows, PickProgress, PlanPart};
use crate::snapshot::{Deadline, Stopped};
use crate::spread::place::{Outlook, PlannedPicks};
use crate::spread::{Outcome, Picker, SkewRule};

/// Picks as many pods as a joint plan does, and bounds their number, whatever the scores.
pub fn most_picks<P: Picker>(
    placer: &mut P,
    with_steps: bool,
    deadline: &Deadline<'_>,
) -> Result<Outcome, Stopped> {
    let start = placer.clone();
    let mut best = placer.run_along(&[], with_steps, deadline)?;
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

/// Picks one by one, or plans all picks jointly where pods remain without a node otherwise.
pub fn pick<P: Picker>(
    picker: &mut P,
    jointly: bool,
    with_steps: bool,
    deadline: &Deadline<'_>,
) -> Result<Outcome, Stopped> {
    if !jointly {
        return picker.run_along(&[], with_steps, deadline);
    }
    let start = picker.clone();
    let mut best = most_picks(picker, with_steps, deadline)?;
    let picks = i64::try_from(best.picks.len()).unwrap_or(i64::MAX);
    best.total_bound = Some(start.highest_total().saturating_mul(picks));
    if best.total_bound != Some(best.total)
        && let Some(found) = best_scored(&start, best.picks.len(), deadline)?
    {
        let mut other = start;
        let outcome = other.run_along(&found, with_steps, deadline)?;
        if outcome.picks.len() == best.picks.len() && outcome.total > best.total {
            let bound = best.bound;
            (*picker, best) = (other, Outcome { bound, ..outcome });
        }
        best.total_bound = Some(best.total);
    }
    Ok(best)
}

/// A plan with more picks than the `known` one, and the most pods that any plan can place. The plan
/// has no parts if there is no such plan.
fn plan(
    outlook: &mut Outlook,
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
        && let Some(found) = longest(outlook, bound, deadline)?
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
fn reachable(outlook: &Outlook, deadline: &Deadline<'_>) -> Result<(Vec<u32>, usize), Stopped> {
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
fn room(outlook: &Outlook) -> usize {
    let rooms = outlook.cells.iter().map(|cell| cell.room);
    let room = rooms.fold(outlook.beside, usize::saturating_add);
    outlook.wanted.min(room)
}

/// The number to which the smallest count of each constraint can be raised, at most `highest`.
fn raised(outlook: &Outlook, flows: &LevelFlows<'_>, highest: &[u32]) -> Result<Vec<u32>, Stopped> {
    let smallest = outlook.constraints.iter().map(|it| it.counts.smallest());
    let mut smallest: Vec<u32> = smallest.map(Option::unwrap_or_default).collect();
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
fn highest(outlook: &Outlook, picks: usize) -> Vec<u32> {
    let constraints = outlook.constraints.iter().enumerate();
    let highest = constraints.map(|(index, constraint)| {
        let mut fullest = constraint.counts.clone();
        for cell in outlook.cells.iter().filter(|cell| cell.counts[index]) {
            let room = u32::try_from(cell.room).unwrap_or(u32::MAX);
            fullest.change(cell.judged_by[index], |count| count.saturating_add(room));
        }
        let counts = constraint.counts.all().map(|(_, count)| count as usize);
        let domains = constraint.counts.all().count().max(1);
        let all = counts.fold(picks, usize::saturating_add);
        let average = u32::try_from(all / domains).unwrap_or(u32::MAX);
        fullest.smallest().map_or(0, |least| average.min(least))
    });
    highest.collect()
}

/// The rule of each constraint at its smallest count.
fn rules(outlook: &Outlook, smallest: &[u32]) -> Vec<SkewRule> {
    let constraints = outlook.constraints.iter().zip(smallest);
    constraints
        .map(|(it, smallest)| it.rule_at(Some(*smallest)))
        .collect()
}

/// The most picks, and the most cells or nodes, with which all orders are tried.
const MOST: usize = 64;

/// The most combinations that are looked at.
const MOST_ORDERS: usize = 20_000;

struct OrderSearch<'s> {
    deadline: &'s Deadline<'s>,
    /// The numbers of picks of cells that were looked at.
    seen: HashSet<Box<[u8]>>,
    now: Box<[u8]>,
    path: Vec<usize>,
    longest: Vec<usize>,
    /// An upper bound of the picks of any order.
    bound: usize,
}

/// The cells of the longest order of picks; `None` if there are too many orders to try.
fn longest(
    outlook: &Outlook,
    bound: usize,
    deadline: &Deadline<'_>,
) -> Result<Option<Vec<usize>>, Stopped> {
    if outlook.wanted > MOST || outlook.cells.len() > MOST {
        return Ok(None);
    }
    let mut search = OrderSearch {
        deadline,
        seen: HashSet::new(),
        now: vec![0; outlook.cells.len()].into(),
        path: Vec::new(),
        longest: Vec::new(),
        bound,
    };
    search.from(&mut PickProgress::of(outlook))?;
    let is_whole = search.longest.len() >= bound || search.seen.len() <= MOST_ORDERS;
    Ok(is_whole.then_some(search.longest))
}

impl OrderSearch<'_> {
    /// Goes on from a path. Returns whether the search ends, because an order as long as the bound was
    /// found, or because there are too many combinations.
    fn from(&mut self, progress: &mut PickProgress<'_>) -> Result<bool, Stopped> {
        if self.path.len() > self.longest.len() {
            self.longest.clone_from(&self.path);
        }
        if self.longest.len() >= self.bound {
            return Ok(true);
        }
        let rules = progress.rules();
        for cell in 0..self.now.len() {
            if !progress.admits(&rules, cell) {
                continue;
            }
            self.now[cell] += 1;
            if self.seen.insert(self.now.clone()) {
                if self.seen.len() > MOST_ORDERS {
                    return Ok(true);
                }
                self.deadline.step(self.now.len())?;
                progress.pick(cell, 1);
                self.path.push(cell);
                if self.from(progress)? {
                    return Ok(true);
                }
                self.path.pop();
                progress.take_back(cell, 1);
            }
            self.now[cell] -= 1;
        }
        Ok(false)
    }
}

/// The most combinations that are looked at.
const MOST_SCORED: usize = 5_000;

/// The number of picks of each node, and the best order of these picks. The order affects only the
/// sum.
struct ScoredPicks<P> {
    placer: P,
    /// The number of picks of each node.
    picks: Box<[u8]>,
    /// The sum of the best order.
    total: i64,
    /// The index of the progress before the last pick of that order, and the node of this pick.
    before: (usize, u32),
}

/// The order of `count` picks with the best sum; `None` if there are too many orders to try.
fn best_scored<P: Picker>(
    start: &P,
    count: usize,
    deadline: &Deadline<'_>,
) -> Result<Option<Vec<PlannedPicks>>, Stopped> {
    let nodes = start.node_count();
    if count > MOST || nodes > MOST {
        return Ok(None);
    }
    let mut combinations = vec![ScoredPicks {
        placer: start.clone(),
        picks: vec![0; nodes].into(),
        total: 0,
        before: (0, 0),
    }];
    let mut steps: Vec<Vec<(usize, u32)>> = Vec::new();
    let mut looked_at = 0;
    for _ in 0..count {
        let mut next: Vec<ScoredPicks<P>> = Vec::new();
        let mut places: HashMap<Box<[u8]>, usize> = HashMap::new();
        for (at, progress) in combinations.iter_mut().enumerate() {
            for choice in progress.placer.choices(deadline)? {
                let mut picks = progress.picks.clone();
                picks[choice.node as usize] += 1;
                let total = progress.total.saturating_add(choice.total);
                let before = (at, choice.node);
                if let Some(known) = places.get(&picks) {
                    let known = &mut next[*known];
                    if known.total < total {
                        (known.total, known.before) = (total, before);
                    }
                    continue;
                }
                looked_at += 1;
                if looked_at > MOST_SCORED {
                    return Ok(None);
                }
                // A picker that is copied has many counts.
                deadline.look()?;
                let mut placer = progress.placer.clone();
                placer.pick(choice.node, deadline)?;
                places.insert(picks.clone(), next.len());
                next.push(ScoredPicks {
                    placer,
                    picks,
                    total,
                    before,
                });
            }
        }
        steps.push(next.iter().map(|progress| progress.before).collect());
        combinations = next;
    }
    let all = combinations.iter().enumerate();
    let best = all.max_by_key(|(at, progress)| (progress.total, std::cmp::Reverse(*at)));
    let Some((mut at, _)) = best else {
        return Ok(None);
    };
    let mut order = Vec::with_capacity(count);
    for step in steps.iter().rev() {
        let (before, node) = step[at];
        order.push(PlannedPicks::of_node(node));
        at = before;
    }
    order.reverse();
    Ok(Some(order))
}
