//! The spread of a workload: the rule that keeps it even, and its balance over the domains of each
//! topology key.

use std::cmp::Reverse;

use super::workload::WorkloadId;
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

    /// The amount by which the skew exceeds max skew, at least 0; 0 where each pod counts its own node
    /// only.
    pub fn excess(&self) -> i64 {
        let constraint = self.constraint.as_ref();
        let max_skew = constraint.filter(|it| !it.counts_own_node);
        let max_skew = max_skew.map(|active| active.constraint.max_skew);
        max_skew.map_or(0, |max| (self.skew - i64::from(max)).max(0))
    }

    /// What a hard constraint does that refuses no node whatever is counted; `None` if it can refuse
    /// one.
    pub fn effect(&self) -> Option<&'static str> {
        let active = self.constraint.as_ref().filter(|_| self.is_hard())?;
        if active.counts_own_node {
            return Some(
                "none: each pod counts the node that it is tied to, so the constraint does nothing; \
                 nodeAffinityPolicy: Ignore would do",
            );
        }
        let wants_more = active.constraint.min_domains.unwrap_or(1) > 1;
        (self.domain_count == 1 && !wants_more).then_some(
            "none: with one domain it refuses no node; minDomains: 2, another key, or Ignore as the \
             policy that leaves other nodes out would",
        )
    }

    /// Returns whether the balance belongs to a hard constraint.
    pub fn is_hard(&self) -> bool {
        let constraint = self.constraint.as_ref();
        constraint.is_some_and(|active| active.constraint.is_hard())
    }
}

/// The rule that keeps a workload even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadStanding {
    /// The workload has its own constraints.
    Constrained,
    /// Default constraints apply.
    Defaulted,
    /// No rule applies, although the workload has several pods.
    Unconstrained(Concentration),
    /// No rule applies, and the workload has a single pod.
    Single,
    /// No rule can have an effect, because each pod may run on only one node, like the pods of
    /// daemon sets and static pods.
    Fixed,
    /// The rule is unknown, because the spec of the pods is invalid.
    Faulty,
}

/// Says if the pods of a workload are all in one place, although they may run in several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concentration {
    /// True if all are in one of several zones that the workload may run in.
    pub in_one_zone: bool,
    /// True if all are on one of several nodes.
    pub on_one_node: bool,
}

/// A workload with its spread.
#[derive(Debug, Clone)]
pub struct JudgedWorkload {
    /// The workload.
    pub workload: WorkloadId,
    /// The number of the workload's pods, without terminating and finished pods.
    pub pods: usize,
    /// The number of these pods that are not on a node yet.
    pub pending: usize,
    /// The number of these pods that name no controller and were found by a selector.
    pub selected: usize,
    /// The rule that keeps the workload even; `None` when it is judged by a key.
    pub standing: Option<SpreadStanding>,
    /// The balance of each distinct constraint in force, or of the key. Pods of two revisions may
    /// have different constraints.
    pub balances: Vec<Balance>,
    /// The fault in the spec of some of the pods, which are not judged.
    pub fault: Option<String>,
}

impl JudgedWorkload {
    /// Returns whether the workload is ranked by its spread. Static pods and single pods are not,
    /// because they cannot be spread in another way.
    pub fn is_ranked(&self) -> bool {
        self.pods > 1 && !self.workload.is_static()
    }
}
