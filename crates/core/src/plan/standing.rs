//! The progress of a plan of picks.

use std::collections::BTreeMap;

use crate::spread::place::Outlook;
use crate::spread::{SkewRule, change_count};

/// The counts and the room after some picks.
#[derive(Debug, Clone)]
pub struct PickStanding<'o> {
    outlook: &'o Outlook<'o>,
    /// For each constraint and value, the count; `None` if the value is no domain.
    counts: Vec<Vec<Option<u32>>>,
    /// For each constraint, the number of domains at each count.
    levels: Vec<BTreeMap<u32, usize>>,
    /// For each cell, the number of further pods that fit.
    pub room: Vec<usize>,
    /// The number of further pods that are wanted.
    pub left: usize,
}

impl<'o> PickStanding<'o> {
    /// The standing before the first pick.
    pub fn of(outlook: &'o Outlook<'o>) -> Self {
        let constraints = outlook.constraints.iter();
        let counts: Vec<_> = constraints.map(|it| it.counts.clone()).collect();
        let levels = counts.iter().map(|counts| {
            let mut levels = BTreeMap::new();
            for count in counts.iter().flatten() {
                *levels.entry(*count).or_default() += 1;
            }
            levels
        });
        Self {
            levels: levels.collect(),
            counts,
            room: outlook.cells.iter().map(|cell| cell.room).collect(),
            left: outlook.wanted,
            outlook,
        }
    }

    /// Returns the rules of the constraints at their present smallest counts.
    pub fn rules(&self) -> Vec<SkewRule> {
        let constraints = self.outlook.constraints.iter().enumerate();
        let rules = constraints.map(|(index, it)| it.constraint.rule_at(self.smallest(index)));
        rules.collect()
    }

    /// The smallest count of a constraint.
    fn smallest(&self, constraint: usize) -> Option<u32> {
        self.levels[constraint].keys().next().copied()
    }

    /// The count that all domains of a constraint have to reach before its rule accepts more.
    /// `None` if no smallest count changes the rule.
    pub fn next(&self, constraint: usize) -> Option<u32> {
        let of = self.outlook.constraints[constraint].constraint;
        let smallest = self.smallest(constraint)?;
        let next = smallest + 1;
        (of.rule_at(Some(next)) != of.rule_at(Some(smallest))).then_some(next)
    }

    /// The number of matching pods in a domain.
    pub fn count(&self, constraint: usize, domain: usize) -> u32 {
        self.counts[constraint][domain].unwrap_or(0)
    }

    /// Returns the number of pods that all domains of a constraint together lack to reach a count.
    pub fn lacks(&self, constraint: usize, count: u32) -> usize {
        let levels = self.levels[constraint].range(..count);
        let lacking = levels.map(|(level, domains)| domains * (count - level) as usize);
        lacking.sum()
    }

    /// Returns whether a cell takes one more pod.
    pub fn admits(&self, rules: &[SkewRule], cell: usize) -> bool {
        let judged_by = self.outlook.cells[cell].judged_by.iter().enumerate();
        let mut all = judged_by.zip(rules);
        self.left > 0
            && self.room[cell] > 0
            && all.all(|((index, domain), rule)| rule.takes(self.count(index, *domain)) > 0)
    }

    /// Counts picks of a cell.
    pub fn pick(&mut self, cell: usize, times: usize) {
        self.room[cell] -= times;
        self.left -= times;
        let more = u32::try_from(times).unwrap_or(u32::MAX);
        self.recount(cell, |count| count.saturating_add(more));
    }

    /// Takes back picks of a cell.
    pub fn take_back(&mut self, cell: usize, times: usize) {
        self.room[cell] += times;
        self.left += times;
        let less = u32::try_from(times).unwrap_or(u32::MAX);
        self.recount(cell, |count| count.saturating_sub(less));
    }

    /// Changes the counts of the domains in which picks of a cell count.
    fn recount(&mut self, cell: usize, change: impl Fn(u32) -> u32) {
        let cell = &self.outlook.cells[cell];
        let constraints = self.counts.iter_mut().zip(&mut self.levels).enumerate();
        for (index, (counts, levels)) in constraints {
            if cell.counts[index]
                && let Some(count) = &mut counts[cell.judged_by[index]]
            {
                change_count(count, levels, &change);
            }
        }
    }
}
