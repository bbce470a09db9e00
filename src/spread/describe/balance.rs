//! The spread of pods over the domains of one topology key.

use std::cmp::Reverse;

use crate::snapshot::{DomainCount, DomainCounts};
use crate::spread::{Active, GlobalMinimum};

/// The spread of pods over the domains of one topology key.
#[derive(Debug, Clone)]
pub struct Balance {
    /// The constraint; `None` when the question is about a key.
    pub constraint: Option<Active>,
    /// The topology key.
    pub topology_key: String,
    /// The number of domains.
    pub domain_count: usize,
    /// The smallest count, or 0 with fewer domains than `minDomains`. Skews are measured from it.
    pub global_minimum: i64,
    /// True if there are fewer domains than `minDomains`.
    pub min_domains_unmet: bool,
    /// The largest count minus the minimum.
    pub skew: i64,
    /// The number of pods of the workload on nodes in no domain.
    pub outside_pods: i64,
    /// The listed domains: most pods first, then by value.
    pub domains: Vec<Share>,
}

/// The numbers of one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Value of the topology key.
    pub value: String,
    /// The number of pods in the domain.
    pub pods: i64,
    /// The number of eligible nodes in the domain.
    pub eligible_nodes: i64,
}

impl Balance {
    /// The balance of counts, listing at most `max_domains` of the domains.
    pub fn of(
        counted: &DomainCounts<'_>,
        topology_key: &str,
        constraint: Option<&Active>,
        outside_pods: usize,
        max_domains: usize,
    ) -> Self {
        let domain_count = counted.domain_count();
        let wanted = constraint.map(|active| &active.constraint);
        let minimum = GlobalMinimum::of(wanted, domain_count, counted.smallest());
        let mut shares: Vec<_> = counted.domains().map(|id| counted.domain(id)).collect();
        let largest = shares.iter().map(|share| share.matching_pods).max();
        shares.sort_unstable_by_key(|share| (Reverse(share.matching_pods), share.value));
        shares.truncate(max_domains);
        let share = |share: DomainCount<'_>| Share {
            value: share.value.to_owned(),
            pods: share.matching_pods,
            eligible_nodes: share.eligible_nodes,
        };
        Self {
            constraint: constraint.cloned(),
            topology_key: topology_key.to_owned(),
            domain_count,
            global_minimum: minimum.pods,
            min_domains_unmet: minimum.min_domains_unmet,
            skew: largest.map_or(0, |largest| largest - minimum.pods),
            outside_pods: i64::try_from(outside_pods).unwrap_or(i64::MAX),
            domains: shares.into_iter().map(share).collect(),
        }
    }

    /// The amount by which the skew exceeds max skew, at least 0.
    pub fn excess(&self) -> i64 {
        let max_skew = self.constraint.as_ref().map(|c| c.constraint.max_skew);
        max_skew.map_or(0, |max| (self.skew - i64::from(max)).max(0))
    }

    /// Returns whether the balance belongs to a hard constraint.
    pub fn is_hard(&self) -> bool {
        let constraint = self.constraint.as_ref();
        constraint.is_some_and(|active| active.constraint.is_hard())
    }
}
