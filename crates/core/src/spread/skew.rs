//! The arithmetic by which a hard constraint admits domains (`docs/semantics.md`, "Filter"), which
//! is nowhere else.

use std::collections::BTreeMap;

use super::active::Active;
use crate::matching::Constraint;

/// The global minimum of a constraint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlobalMinimum {
    /// The count that skews are measured from.
    pub pods: i64,
    /// True if the minimum is 0 because there are fewer domains than `minDomains`.
    pub min_domains_unmet: bool,
}

impl GlobalMinimum {
    /// The smallest count of the domains; 0 when there are fewer domains than the constraint's
    /// `minDomains`, which is 1 when unset. Without a constraint any number of domains is enough.
    pub fn of(constraint: Option<&Constraint>, domains: usize, smallest: Option<u32>) -> Self {
        let min_domains_unmet = constraint.is_some_and(|constraint| {
            let wanted = constraint.min_domains.unwrap_or(1);
            domains < usize::try_from(wanted).unwrap_or(1)
        });
        Self {
            pods: match smallest {
                Some(smallest) if !min_domains_unmet => smallest.into(),
                _ => 0,
            },
            min_domains_unmet,
        }
    }
}

/// The numbers that decide if a domain takes the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkewRule {
    /// The most by which a domain may exceed the global minimum with the pod in it.
    pub max_skew: i64,
    /// 1 when the constraint counts the pod itself, else 0.
    pub self_match: i64,
    /// The global minimum.
    pub minimum: i64,
}

impl SkewRule {
    /// The rule of a constraint that measures from `minimum`.
    pub fn of(active: &Active, minimum: i64) -> Self {
        Self {
            max_skew: match active.counts_own_node {
                true => u32::MAX.into(),
                false => active.constraint.max_skew.into(),
            },
            self_match: active.self_match,
            minimum,
        }
    }

    /// The skew of a domain with this many matching pods, after the pod is added.
    pub fn skew(&self, matching_pods: i64) -> i64 {
        matching_pods + self.self_match - self.minimum
    }

    /// Returns whether a domain with this many matching pods takes the pod.
    pub fn admits(&self, matching_pods: i64) -> bool {
        matching_pods <= self.limit()
    }

    /// The most matching pods with which a domain takes the pod; negative when no
    /// domain does.
    pub fn limit(&self) -> i64 {
        self.max_skew + self.minimum - self.self_match
    }

    /// Returns how many more pods a domain with this many matching pods takes, if each pod counts
    /// in the domain and the minimum does not change.
    pub fn takes(&self, matching_pods: u32) -> usize {
        let takes = self.limit().saturating_add(1) - i64::from(matching_pods);
        usize::try_from(takes).unwrap_or(0)
    }

    /// The smallest global minimum at which a domain with this many matching pods
    /// takes the pod.
    pub fn minimum_to_admit(&self, matching_pods: i64) -> i64 {
        matching_pods + self.self_match - self.max_skew
    }
}

/// Changes the count of a domain. `levels` has the number of domains at each count.
pub fn change_count(
    count: &mut u32,
    levels: &mut BTreeMap<u32, usize>,
    change: impl FnOnce(u32) -> u32,
) {
    if let Some(domains) = levels.get_mut(count) {
        *domains -= 1;
        if *domains == 0 {
            levels.remove(count);
        }
    }
    *count = change(*count);
    *levels.entry(*count).or_default() += 1;
}
