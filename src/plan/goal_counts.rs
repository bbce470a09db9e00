//! The counts of a constraint while pods move.

use std::collections::BTreeMap;

use crate::matching::Constraint;
use crate::snapshot::DomainCounts;
use crate::spread::{GlobalMinimum, SkewRule};

/// The number of pods in each domain, and the skew that is allowed.
#[derive(Debug, Clone)]
pub struct GoalCounts {
    /// The counts by domain; `None` where a value is no domain.
    counts: Vec<Option<u32>>,
    /// The number of domains that have each count.
    levels: BTreeMap<u32, usize>,
    max_skew: u32,
    /// True if skews are measured from 0, whatever the smallest count is.
    from_zero: bool,
}

impl GoalCounts {
    /// Returns the goals of a constraint; without one, of domains that may differ by
    /// one pod.
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

    /// Matching pods in a domain.
    pub fn count(&self, domain: usize) -> u32 {
        self.counts[domain].unwrap_or(0)
    }

    /// Returns what the constraint admits now of a pod that it counts so often.
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

    /// Returns whether moves alone can satisfy it.
    pub fn is_reachable(&self) -> bool {
        let pods: u64 = self
            .levels
            .iter()
            .map(|(c, n)| u64::from(*c) * *n as u64)
            .sum();
        let domains: usize = self.levels.values().sum();
        !self.from_zero || pods <= u64::from(self.max_skew) * domains as u64
    }

    /// Returns how many pods have to move at least until it is satisfied, and the smallest count
    /// at which so few are enough.
    pub fn needed(&self) -> (usize, u32) {
        if self.excess() == 0 {
            return (0, self.minimum());
        }
        let largest = self.levels.last_key_value().map_or(0, |(count, _)| *count);
        let (mut low, mut high) = (self.minimum(), largest);
        if self.from_zero {
            return (self.above(self.max_skew), 0);
        }
        // The more the smallest count is, the fewer pods are above and the more below.
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

    /// Returns what it does to it that a pod leaves a domain: 1 where one has to, -1 where none
    /// should.
    pub fn leaving(&self, domain: usize, floor: u32) -> i32 {
        match self.count(domain) {
            count if count > floor.saturating_add(self.max_skew) => 1,
            count if count > floor => 0,
            _ => -1,
        }
    }

    /// The same, that a pod comes to a domain.
    pub fn coming(&self, domain: usize, floor: u32) -> i32 {
        match self.count(domain) {
            count if count < floor => 1,
            count if count < floor.saturating_add(self.max_skew) => 0,
            _ => -1,
        }
    }

    /// Moves a counted pod: out of a domain, into one, or both.
    pub fn shift(&mut self, from: Option<usize>, to: Option<usize>) {
        self.set(from, |count| count.saturating_sub(1));
        self.set(to, |count| count.saturating_add(1));
    }

    fn set(&mut self, domain: Option<usize>, change: impl Fn(u32) -> u32) {
        let Some(count) = domain.and_then(|domain| self.counts[domain].as_mut()) else {
            return;
        };
        if let Some(domains) = self.levels.get_mut(count) {
            *domains -= 1;
            if *domains == 0 {
                self.levels.remove(count);
            }
        }
        *count = change(*count);
        *self.levels.entry(*count).or_default() += 1;
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
