//! How far a plan of picks has come.

use crate::spread::SkewRule;
use crate::spread::place::Outlook;

/// Counts and room after some picks.
#[derive(Debug, Clone)]
pub struct PickStanding<'o> {
    outlook: &'o Outlook<'o>,
    /// By constraint and value: the count, if it is a domain.
    counts: Vec<Vec<Option<u32>>>,
    /// By cell: how many more pods fit.
    pub room: Vec<usize>,
    /// How many more are wanted.
    pub left: usize,
}

impl<'o> PickStanding<'o> {
    /// Before the first pick.
    pub fn of(outlook: &'o Outlook<'o>) -> Self {
        let constraints = outlook.constraints.iter();
        Self {
            counts: constraints.map(|it| it.counts.clone()).collect(),
            room: outlook.cells.iter().map(|cell| cell.room).collect(),
            left: outlook.wanted,
            outlook,
        }
    }

    /// By constraint: what it accepts now.
    pub fn rules(&self) -> Vec<SkewRule> {
        let constraints = self.outlook.constraints.iter().zip(&self.counts);
        constraints.map(|(it, counts)| it.rule(counts)).collect()
    }

    /// Returns how many more pods a domain takes by a rule.
    pub fn takes(&self, rule: SkewRule, constraint: usize, domain: usize) -> usize {
        let count = self.counts[constraint][domain].unwrap_or(0);
        // It takes a pod as long as its count is not above the limit.
        let takes = rule.limit().saturating_add(1) - i64::from(count);
        usize::try_from(takes).unwrap_or(0)
    }

    /// Returns whether a cell takes one more pod.
    pub fn admits(&self, rules: &[SkewRule], cell: usize) -> bool {
        let judged_by = self.outlook.cells[cell].judged_by.iter().enumerate();
        let mut all = judged_by.zip(rules);
        self.left > 0
            && self.room[cell] > 0
            && all.all(|((index, domain), rule)| self.takes(*rule, index, *domain) > 0)
    }

    /// The domains that keep the smallest count of a constraint where it is; none
    /// where no pick changes what it accepts.
    pub fn holding(&self, constraint: usize) -> Vec<usize> {
        let (counts, of) = (
            &self.counts[constraint],
            &self.outlook.constraints[constraint],
        );
        let Some(smallest) = counts.iter().flatten().min() else {
            return Vec::new();
        };
        let raised = [Some(smallest + 1)];
        if of.rule(&raised) == of.rule(counts) {
            return Vec::new();
        }
        let domains = counts.iter().enumerate();
        let smallest = domains.filter(|(_, count)| **count == Some(*smallest));
        smallest.map(|(domain, _)| domain).collect()
    }

    /// Counts picks of a cell.
    pub fn pick(&mut self, cell: usize, times: usize) {
        self.room[cell] -= times;
        self.left -= times;
        let more = u32::try_from(times).unwrap_or(u32::MAX);
        let cell = &self.outlook.cells[cell];
        for (index, counts) in self.counts.iter_mut().enumerate() {
            if cell.counts[index]
                && let Some(count) = &mut counts[cell.judged_by[index]]
            {
                *count = count.saturating_add(more);
            }
        }
    }

    /// Takes back a pick of a cell.
    pub fn take_back(&mut self, cell: usize) {
        self.room[cell] += 1;
        self.left += 1;
        let cell = &self.outlook.cells[cell];
        for (index, counts) in self.counts.iter_mut().enumerate() {
            if cell.counts[index]
                && let Some(count) = &mut counts[cell.judged_by[index]]
            {
                *count -= 1;
            }
        }
    }
}
