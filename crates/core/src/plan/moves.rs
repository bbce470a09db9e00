//! A search for the fewest moves after which constraints are satisfied. It looks at counts and room
//! alone: which pods and nodes are in a cell is not asked.

use std::cmp::Reverse;

use crate::matching::Constraint;
use crate::snapshot::{Deadline, DomainCounts, Slot, Stopped};
use crate::spread::{ChangingCounts, GlobalMinimum, SkewRule};

/// The number of moves that are tried before the search ends with its best result.
const MOST_LOOKS: usize = 20_000;

/// The number of moves by which a plan may exceed the lower bound.
const MOST_EXTRA: usize = 3;

/// The pods that may move, and their possible targets.
#[derive(Debug)]
pub struct MoveBoard {
    /// The constraints.
    pub goals: Vec<BoardGoal>,
    /// The pods that may leave their nodes, in cells of alike pods.
    pub sources: Vec<SourceCell>,
    /// For each class of pods, the cells of nodes to which they may go; none of other workloads.
    pub targets: Vec<Vec<TargetCell>>,
    /// For each class and goal, true if the goal counts the pods.
    pub counts: Vec<Vec<bool>>,
    /// For each class, the goals that decide where its pods may go, each with 1 if it counts the
    /// pod itself, else 0.
    pub rules: Vec<Vec<(usize, i64)>>,
}

/// A constraint on the board.
#[derive(Debug, Clone)]
pub struct BoardGoal {
    /// The counts of the goal.
    pub counts: GoalCounts,
    /// True if the goal has to be satisfied in the end. Other goals must not get worse.
    pub is_wanted: bool,
    /// The excess of the goal before any move.
    pub excess: u32,
}

/// Pods that leave the same domains.
#[derive(Debug, Clone)]
pub struct SourceCell {
    /// The class of the pods.
    pub class: usize,
    /// For each goal, the domain that they are in.
    pub domains: Vec<Option<usize>>,
    /// The number of pods that may still leave.
    pub left: usize,
    /// The pods, in the order in which they leave.
    pub pods: Vec<usize>,
}

/// Nodes in the same domains.
#[derive(Debug, Clone)]
pub struct TargetCell {
    /// For each goal, the domain that they are in.
    pub domains: Vec<Option<usize>>,
    /// The number of further pods of the class that fit.
    pub room: usize,
    /// The nodes.
    pub nodes: Vec<Slot>,
}

/// A move: the index of the source cell, and the index of the target cell in the list of its class.
pub type BoardMove = (usize, usize);

/// Moves that were found.
#[derive(Debug, Clone, Default)]
pub struct FoundMoves {
    /// The moves, in order.
    pub moves: Vec<BoardMove>,
    /// True if all wanted goals are satisfied after the moves.
    pub is_whole: bool,
    /// True if no plan with fewer moves reaches the same.
    pub is_least: bool,
}

impl MoveBoard {
    /// Searches for at most `most` moves. If they cannot satisfy all wanted goals, returns moves of
    /// which each brings these closer.
    pub fn search(&mut self, most: usize, deadline: &Deadline<'_>) -> Result<FoundMoves, Stopped> {
        let least = self.lacking();
        let is_reachable = |goal: &BoardGoal| !goal.is_wanted || goal.counts.is_reachable();
        let mut looks = MOST_LOOKS;
        let mut is_least = true;
        if self.goals.iter().all(is_reachable) {
            for length in least..=most.min(least + MOST_EXTRA) {
                let mut moves = Vec::with_capacity(length);
                if self.descend(length, &mut moves, &mut looks, deadline)? {
                    return Ok(FoundMoves {
                        moves,
                        is_whole: true,
                        is_least,
                    });
                }
                is_least &= looks > 0;
                if looks == 0 {
                    break;
                }
            }
        }
        let mut moves = Vec::new();
        while moves.len() < most
            && let Some(step) = self.improving(deadline)?
        {
            moves.push(step);
        }
        Ok(FoundMoves {
            moves,
            is_whole: self.lacking() == 0,
            is_least: false,
        })
    }

    /// Returns a lower bound of the moves that are still needed.
    fn lacking(&self) -> usize {
        let wanted = self.goals.iter().filter(|goal| goal.is_wanted);
        let lacking = wanted.map(|goal| goal.counts.needed().0).max().unwrap_or(0);
        lacking.max(usize::from(self.worsens()))
    }

    fn worsens(&self) -> bool {
        let mut kept = self.goals.iter().filter(|goal| !goal.is_wanted);
        kept.any(|goal| goal.counts.excess() > goal.excess)
    }

    fn descend(
        &mut self,
        left: usize,
        moves: &mut Vec<BoardMove>,
        looks: &mut usize,
        deadline: &Deadline<'_>,
    ) -> Result<bool, Stopped> {
        let lacking = self.lacking();
        if lacking == 0 || lacking > left {
            return Ok(lacking == 0);
        }
        for step in self.in_order(deadline)? {
            if *looks == 0 {
                return Ok(false);
            }
            *looks -= 1;
            deadline.step(self.goals.len())?;
            if !self.make(step) {
                continue;
            }
            moves.push(step);
            if self.lacking() < left && self.descend(left - 1, moves, looks, deadline)? {
                return Ok(true);
            }
            moves.pop();
            self.take_back(step);
        }
        Ok(false)
    }

    /// Makes a move that brings wanted goals closer and worsens no goal.
    fn improving(&mut self, deadline: &Deadline<'_>) -> Result<Option<BoardMove>, Stopped> {
        let before = self.needed();
        if before.iter().all(|needed| *needed == 0) {
            return Ok(None);
        }
        for step in self.in_order(deadline)?.take(MOST_LOOKS / 4) {
            deadline.step(self.goals.len())?;
            if !self.make(step) {
                continue;
            }
            let after = self.needed();
            let mut both = before.iter().zip(&after);
            let is_less = after.iter().sum::<usize>() < before.iter().sum::<usize>();
            if is_less && both.all(|(before, after)| after <= before) && !self.worsens() {
                return Ok(Some(step));
            }
            self.take_back(step);
        }
        Ok(None)
    }

    fn needed(&self) -> Vec<usize> {
        let wanted = self.goals.iter().filter(|goal| goal.is_wanted);
        wanted.map(|goal| goal.counts.needed().0).collect()
    }

    /// All moves, from and to the most promising cells first.
    fn in_order(
        &self,
        deadline: &Deadline<'_>,
    ) -> Result<impl Iterator<Item = BoardMove> + use<>, Stopped> {
        let cells = self.targets.iter().map(Vec::len).sum::<usize>() + self.sources.len();
        deadline.step(cells.saturating_mul(self.goals.len()))?;
        let floors: Vec<u32> = self
            .goals
            .iter()
            .map(|goal| goal.counts.needed().1)
            .collect();
        let rank = |class: usize, domains: &[Option<usize>], is_source: bool| {
            let (mut gain, mut pods) = (0, 0);
            for (at, goal) in self.goals.iter().enumerate() {
                let Some(domain) = domains[at].filter(|_| self.counts[class][at]) else {
                    continue;
                };
                gain += match is_source {
                    true => goal.counts.leaving(domain, floors[at]),
                    false => goal.counts.coming(domain, floors[at]),
                };
                pods += i64::from(goal.counts.count(domain));
            }
            (Reverse(gain), if is_source { -pods } else { pods })
        };
        let mut sources: Vec<usize> = (0..self.sources.len()).collect();
        sources.retain(|at| self.sources[*at].left > 0);
        sources.sort_by_cached_key(|at| {
            rank(self.sources[*at].class, &self.sources[*at].domains, true)
        });
        let order = |(class, cells): (usize, &Vec<TargetCell>)| {
            let mut order: Vec<usize> = (0..cells.len()).collect();
            order.retain(|at| cells[*at].room > 0);
            order.sort_by_cached_key(|at| rank(class, &cells[*at].domains, false));
            order
        };
        let targets: Vec<Vec<usize>> = self.targets.iter().enumerate().map(order).collect();
        let classes: Vec<usize> = self.sources.iter().map(|cell| cell.class).collect();
        let targets_of = move |source: usize| targets[classes[source]].clone();
        let moves = sources.into_iter();
        Ok(moves.flat_map(move |at| targets_of(at).into_iter().map(move |to| (at, to))))
    }

    /// Makes a move, if its target takes the pod after the pod has left its source.
    fn make(&mut self, (source, target): BoardMove) -> bool {
        let cell = &self.sources[source];
        let to = &self.targets[cell.class][target];
        if cell.left == 0 || to.room == 0 || cell.domains == to.domains {
            return false;
        }
        let class = cell.class;
        for (at, goal) in self.goals.iter_mut().enumerate() {
            if self.counts[class][at] {
                goal.counts.shift(cell.domains[at], None);
            }
        }
        let admits = |(goal, self_match): &(usize, i64)| {
            to.domains[*goal].is_some_and(|it| self.goals[*goal].counts.admits(it, *self_match))
        };
        let admits = self.rules[class].iter().all(admits);
        for (at, goal) in self.goals.iter_mut().enumerate() {
            if self.counts[class][at] {
                let to = if admits {
                    to.domains[at]
                } else {
                    cell.domains[at]
                };
                goal.counts.shift(None, to);
            }
        }
        if admits {
            self.sources[source].left -= 1;
            self.targets[class][target].room -= 1;
        }
        admits
    }

    fn take_back(&mut self, (source, target): BoardMove) {
        let class = self.sources[source].class;
        self.sources[source].left += 1;
        self.targets[class][target].room += 1;
        let (from, to) = (&self.sources[source], &self.targets[class][target]);
        for (at, goal) in self.goals.iter_mut().enumerate() {
            if self.counts[class][at] {
                goal.counts.shift(to.domains[at], from.domains[at]);
            }
        }
    }
}

/// The number of pods in each domain, and the skew that is allowed.
#[derive(Debug, Clone)]
pub struct GoalCounts {
    counts: ChangingCounts,
    max_skew: u32,
    /// True if skews are measured from 0 instead of the smallest count.
    from_zero: bool,
}

impl GoalCounts {
    /// Returns the goal of a constraint. Without a constraint, domains may differ by one pod.
    pub fn of(counted: &DomainCounts<'_>, constraint: Option<&Constraint>) -> Self {
        let domains = counted.domain_count();
        let minimum = GlobalMinimum::of(constraint, domains, counted.smallest());
        let max_skew = constraint.map_or(1, |constraint| constraint.max_skew);
        Self {
            counts: ChangingCounts::from(counted),
            max_skew: u32::try_from(max_skew).unwrap_or(1),
            from_zero: minimum.min_domains_unmet,
        }
    }

    /// The number of matching pods in a domain.
    pub fn count(&self, domain: usize) -> u32 {
        self.counts.count(domain)
    }

    /// The number of matching pods in each domain.
    pub fn all(&self) -> impl Iterator<Item = (usize, u32)> {
        self.counts.all()
    }

    /// Returns whether the constraint admits a pod in a domain. `self_match` is 1 if the constraint
    /// counts the pod, else 0.
    pub fn admits(&self, domain: usize, self_match: i64) -> bool {
        let rule = SkewRule {
            max_skew: self.max_skew.into(),
            self_match,
            minimum: self.minimum().into(),
        };
        rule.admits(self.count(domain).into())
    }

    /// Returns the amount by which the skew exceeds max skew.
    pub fn excess(&self) -> u32 {
        let largest = self.counts.largest();
        largest.saturating_sub(self.minimum().saturating_add(self.max_skew))
    }

    /// Returns whether moves alone can satisfy the constraint.
    pub fn is_reachable(&self) -> bool {
        let (mut pods, mut domains) = (0, 0);
        for (count, of) in self.counts.levels() {
            pods += u64::from(count) * of as u64;
            domains += of;
        }
        !self.from_zero || pods <= u64::from(self.max_skew) * domains as u64
    }

    /// Returns the least number of pods that have to move to satisfy the constraint, and the
    /// smallest count that the domains then have.
    pub fn needed(&self) -> (usize, u32) {
        if self.excess() == 0 {
            return (0, self.minimum());
        }
        let largest = self.counts.largest();
        let (mut low, mut high) = (self.minimum(), largest);
        if self.from_zero {
            return (self.counts.above(self.max_skew), 0);
        }
        // The higher the smallest count, the fewer pods are above the limit and the more are
        // missing below.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.counts.below(middle)
                >= self.counts.above(middle.saturating_add(self.max_skew))
            {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let at = |floor: u32| {
            let above = self.counts.above(floor.saturating_add(self.max_skew));
            (above.max(self.counts.below(floor)), floor)
        };
        at(low).min(at(low.saturating_sub(1)))
    }

    /// Returns the use of a pod leaving a domain: 1 if pods have to leave it, 0 if one may, -1 if
    /// none should. `floor` is the smallest count to reach.
    pub fn leaving(&self, domain: usize, floor: u32) -> i32 {
        match self.count(domain) {
            count if count > floor.saturating_add(self.max_skew) => 1,
            count if count > floor => 0,
            _ => -1,
        }
    }

    /// Returns the use of a pod coming to a domain, in the same way.
    pub fn coming(&self, domain: usize, floor: u32) -> i32 {
        match self.count(domain) {
            count if count < floor => 1,
            count if count < floor.saturating_add(self.max_skew) => 0,
            _ => -1,
        }
    }

    /// Counts a move of a pod out of a domain, into a domain, or both.
    pub fn shift(&mut self, from: Option<usize>, to: Option<usize>) {
        if let Some(from) = from {
            self.counts.change(from, |count| count.saturating_sub(1));
        }
        if let Some(to) = to {
            self.counts.change(to, |count| count.saturating_add(1));
        }
    }

    fn minimum(&self) -> u32 {
        let smallest = self.counts.smallest().filter(|_| !self.from_zero);
        smallest.unwrap_or(0)
    }
}
