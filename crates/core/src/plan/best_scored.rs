//! Tries all orders of picks for the best sum of scores and bonuses, if there are few orders.

use std::collections::HashMap;

use crate::snapshot::{Deadline, Stopped};
use crate::spread::place::{PlannedPicker, PlannedPicks};

/// The most picks, and the most nodes, with which all orders are tried.
const MOST: usize = 64;

/// The most standings that are looked at.
const STANDINGS: usize = 5_000;

/// The number of picks of each node, and the best order of these picks. The order affects only the
/// sum.
struct ScoredStanding<P> {
    placer: P,
    /// The number of picks of each node.
    picks: Box<[u8]>,
    /// The sum of the best order.
    total: i64,
    /// The index of the standing before the last pick of that order, and the node of this pick.
    before: (usize, u32),
}

/// The order of `count` picks with the best sum; `None` if there are too many orders to try.
pub fn picks<P: PlannedPicker>(
    start: &P,
    count: usize,
    deadline: &Deadline<'_>,
) -> Result<Option<Vec<PlannedPicks>>, Stopped> {
    let nodes = start.node_count();
    if count > MOST || nodes > MOST {
        return Ok(None);
    }
    let mut standings = vec![ScoredStanding {
        placer: start.clone(),
        picks: vec![0; nodes].into(),
        total: 0,
        before: (0, 0),
    }];
    let mut steps: Vec<Vec<(usize, u32)>> = Vec::new();
    let mut looked_at = 0;
    for _ in 0..count {
        let mut next: Vec<ScoredStanding<P>> = Vec::new();
        let mut places: HashMap<Box<[u8]>, usize> = HashMap::new();
        for (at, standing) in standings.iter_mut().enumerate() {
            for choice in standing.placer.choices() {
                let mut picks = standing.picks.clone();
                picks[choice.node as usize] += 1;
                let total = standing.total.saturating_add(choice.total);
                let before = (at, choice.node);
                if let Some(known) = places.get(&picks) {
                    let known = &mut next[*known];
                    if known.total < total {
                        (known.total, known.before) = (total, before);
                    }
                    continue;
                }
                looked_at += 1;
                if looked_at > STANDINGS {
                    return Ok(None);
                }
                // A picker that is copied has many counts.
                deadline.look()?;
                let mut placer = standing.placer.clone();
                placer.pick(choice.node, deadline)?;
                places.insert(picks.clone(), next.len());
                next.push(ScoredStanding {
                    placer,
                    picks,
                    total,
                    before,
                });
            }
        }
        steps.push(next.iter().map(|standing| standing.before).collect());
        standings = next;
    }
    let all = standings.iter().enumerate();
    let best = all.max_by_key(|(at, standing)| (standing.total, std::cmp::Reverse(*at)));
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
