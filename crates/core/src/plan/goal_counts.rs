//! The counts of a constraint, which follow the moves of pods.

use std::collections::BTreeMap;

use crate::matching::Constraint;
use crate::snapshot::DomainCounts;
use crate::spread::{GlobalMinimum, SkewRule, change_count};

/// The number of pods in each domain, and the skew that is allowed.
#[derive(Debug, Clone)]
pub struct GoalCounts {
    /// The count of each value; `None` if the value is no domain.
    counts: Vec<Option<u32>>,
    /// The number of domains that have each count.
    levels: BTreeMap<u32, usize>,
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
        let mut goal = Self {
            counts: vec![None; counted.value_count()],
            levels: BTreeMap::new(),
            max_skew: u32::try_from(max_skew).unwrap_or(1),
            from_zero: minimum.min_domains_unmet,
        };
        for domain in counted.domains() {
            let count = counted.matching_pods(domain);
            goal.counts[domain.index()] = Some(count);
            *goal.levels.entry(count).or_default() += 1;
        }
        goal
    }

    /// The number of matching pods in a domain.
    pub fn count(&self, domain: usize) -> u32 {
        self.counts[domain].unwrap_or(0)
    }

    /// The number of matching pods in each domain.
    pub fn all(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.counts.iter().enumerate();
        all.filter_map(|(domain, count)| Some((domain, (*count)?)))
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
        let largest = self.levels.last_key_value().map_or(0, |(count, _)| *count);
        largest.saturating_sub(self.minimum().saturating_add(self.max_skew))
    }

    /// Returns whether moves alone can satisfy the constraint.
    pub fn is_reachable(&self) -> bool {
        let pods: u64 = self
            .levels
            .iter()
            .map(|(c, n)| u64::from(*c) * *n as u64)
            .sum();
        let domains: usize = self.levels.values().sum();
        !self.from_zero || pods <= u64::from(self.max_skew) * domains as u64
    }

    /// Returns the least number of pods that have to move to satisfy the constraint, and the
    /// smallest count that the domains then have.
    pub fn needed(&self) -> (usize, u32) {
        if self.excess() == 0 {
            return (0, self.minimum());
        }
        let largest = self.levels.last_key_value().map_or(0, |(count, _)| *count);
        let (mut low, mut high) = (self.minimum(), largest);
        if self.from_zero {
            return (self.above(self.max_skew), 0);
        }
        // The higher the smallest count, the fewer pods are above the limit and the more are
        // missing below.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.below(middle) >= self.above(middle.saturating_add(self.max_skew)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let at = |floor: u32| {
            let above = self.above(floor.saturating_add(self.max_skew));
            (above.max(self.below(floor)), floor)
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
        self.set(from, |count| count.saturating_sub(1));
        self.set(to, |count| count.saturating_add(1));
    }

    fn set(&mut self, domain: Option<usize>, change: impl Fn(u32) -> u32) {
        if let Some(count) = domain.and_then(|domain| self.counts[domain].as_mut()) {
            change_count(count, &mut self.levels, change);
        }
    }

    fn minimum(&self) -> u32 {
        let smallest = self.levels.first_key_value().map_or(0, |(count, _)| *count);
        if self.from_zero { 0 } else { smallest }
    }

    fn above(&self, most: u32) -> usize {
        let above = self.levels.range(most.saturating_add(1)..);
        above
            .map(|(count, domains)| (count - most) as usize * domains)
            .sum()
    }

    fn below(&self, least: u32) -> usize {
        let below = self.levels.range(..least);
        below
            .map(|(count, domains)| (least - count) as usize * domains)
            .sum()
    }
}
