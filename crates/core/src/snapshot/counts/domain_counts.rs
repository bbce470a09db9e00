//! The answer to a query: the number of matching pods in each domain, and the domains with the fewest
//! of them, as many as a report lists. There may be as many domains as nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::partition::{DomainId, PartitionInUse};
use super::topology::{self, Ascending};
use super::views::View;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::slots::Slot;

/// The answer to a [`Query`](super::super::Query).
#[derive(Clone)]
pub struct DomainCounts<'a> {
    in_use: PartitionInUse,
    view: Arc<View>,
    nodes: &'a Nodes,
}

/// A domain with its counts. The order is by pods, then by value: reports list domains so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainCount<'a> {
    /// Matching pods on its eligible nodes.
    pub matching_pods: i64,
    /// Value of the topology key.
    pub value: &'a str,
    /// Eligible nodes in it.
    pub eligible_nodes: i64,
}

impl<'a> DomainCounts<'a> {
    /// Returns the counts of `view`, which belongs to this partition of `nodes`.
    pub(in crate::snapshot) fn of(
        in_use: PartitionInUse,
        view: Arc<View>,
        nodes: &'a Nodes,
    ) -> Self {
        Self {
            in_use,
            view,
            nodes,
        }
    }

    /// Counts one more matching pod on a node. Nobody else sees it.
    pub fn add(&mut self, slot: Slot) {
        let domain = self.in_use.partition.member(slot);
        if domain.is_some() {
            Arc::make_mut(&mut self.view).add(domain);
        }
    }

    /// Counts one matching pod fewer on a node. Nobody else sees it.
    pub fn remove(&mut self, slot: Slot) {
        let domain = self.in_use.partition.member(slot);
        if domain.is_some() {
            Arc::make_mut(&mut self.view).remove(domain);
        }
    }

    /// The smallest count of a domain; `None` without domains.
    pub fn smallest(&self) -> Option<u32> {
        self.view.smallest(&self.in_use.partition)
    }

    /// The smallest count of a domain, if `domain` had `more` pods more.
    pub fn smallest_with(&self, domain: DomainId, more: u32) -> u32 {
        self.view
            .smallest_with(&self.in_use.partition, domain, more)
    }

    /// The largest count of a domain.
    pub fn largest(&self) -> u32 {
        self.view.largest()
    }

    /// Returns the number of domains.
    pub fn domain_count(&self) -> usize {
        self.in_use.partition.domain_count()
    }

    /// The domains.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> {
        self.in_use.partition.domains()
    }

    /// At most `max` domains: those with the smallest counts, ascending by
    /// count, then by value.
    pub fn fewest(&self, max: usize) -> Vec<DomainId> {
        let partition = &self.in_use.partition;
        let bound = match self.view.levels() {
            Some(levels) if max < partition.domain_count() => bound_by_levels(levels, max),
            _ => bound_by_counts(self.counts(), partition.nodes_in(), max),
        };
        self.up_to(bound, partition.nodes_in())
    }

    /// As [`Self::fewest`], among the values with nodes in `nodes_in`.
    pub fn fewest_among(&self, nodes_in: &[u32], max: usize) -> Vec<DomainId> {
        self.up_to(bound_by_counts(self.counts(), nodes_in, max), nodes_in)
    }

    fn up_to(&self, bound: Bound, nodes_in: &[u32]) -> Vec<DomainId> {
        let ascending = self.in_use.topology.ascending(self.nodes);
        domains_before(bound, self.counts(), nodes_in, ascending)
    }

    /// Returns the counts of a domain.
    pub fn domain(&self, id: DomainId) -> DomainCount<'_> {
        DomainCount {
            matching_pods: self.view.count(id).into(),
            value: self.in_use.topology.value(id, self.nodes),
            eligible_nodes: self.in_use.partition.eligible_nodes(id).into(),
        }
    }

    /// Matching pods in a domain; 0 in a value that is no domain.
    pub fn matching_pods(&self, id: DomainId) -> u32 {
        self.view.count(id)
    }

    /// The value that a node has; [`DomainId::NONE`] when it lacks the key.
    pub fn domain_of(&self, slot: Slot) -> DomainId {
        self.in_use.topology.domain_of(slot)
    }

    /// Returns which of `slots` have the topology key.
    pub fn keyed(&self, slots: &[Slot]) -> FixedBitSet {
        if self.nodes.is_order(slots) {
            return self.in_use.topology.layout(self.nodes).keyed().clone();
        }
        topology::bits(slots, |slot| self.domain_of(*slot).is_some())
    }

    /// Returns which of `slots` are in a domain with at most `most` matching pods.
    pub fn at_most(&self, slots: &[Slot], most: u32) -> FixedBitSet {
        if self.nodes.is_order(slots) {
            let layout = self.in_use.topology.layout(self.nodes);
            return layout.at_most(self.counts(), most);
        }
        topology::bits(slots, |slot| {
            let domain = self.domain_of(*slot);
            domain.is_some() && self.view.count(domain) <= most
        })
    }

    /// One more than the largest number of a value.
    pub fn value_count(&self) -> usize {
        self.in_use.topology.id_bound()
    }

    /// The partition behind the counts.
    pub fn in_use(&self) -> &PartitionInUse {
        &self.in_use
    }

    /// Matching pods by domain; domains past its end have none.
    pub fn counts(&self) -> &[u32] {
        self.view.counts()
    }
}

/// The number of counts that are skipped at once where all of them are too large.
const STRIDE: usize = 32;

/// The end of the wanted domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The number of wanted domains, at most that of all.
    pub total: usize,
    /// The largest count among them.
    pub count: u32,
    /// The number of wanted domains with that count: the first by value.
    pub at_count: usize,
}

/// The bound after `max` of the domains, given the number of domains at each
/// count.
fn bound_by_levels(levels: &BTreeMap<u32, u32>, max: usize) -> Bound {
    let mut at_count = max;
    for (count, domains) in levels {
        let domains = *domains as usize;
        if domains >= at_count {
            return Bound {
                total: max,
                count: *count,
                at_count,
            };
        }
        at_count -= domains;
    }
    unreachable!("each domain stands at a count")
}

/// The bound after `max` of the domains with nodes in `nodes_in`, or after all of them.
fn bound_by_counts(counts: &[u32], nodes_in: &[u32], max: usize) -> Bound {
    let domains = nodes_in.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
    let mut counts: Vec<u32> = domains
        .map(|(i, _)| counts.get(i).copied().unwrap_or(0))
        .collect();
    let total = max.min(counts.len());
    if total == counts.len() || total == 0 {
        return Bound {
            total,
            count: u32::MAX,
            at_count: total,
        };
    }
    let (below, count, _) = counts.select_nth_unstable(total - 1);
    let count = *count;
    Bound {
        total,
        count,
        at_count: total - below.iter().filter(|below| **below < count).count(),
    }
}

/// The domains before a bound, ascending by count, then by value. Both lists are by
/// domain: past the end of `counts` they have 0. A value that is 0 in `nodes_in` or
/// past its end is no domain.
fn domains_before(
    bound: Bound,
    counts: &[u32],
    nodes_in: &[u32],
    ascending: &Ascending,
) -> Vec<DomainId> {
    let mut search = Search {
        counts,
        nodes_in,
        bound,
        domains: Vec::with_capacity(bound.total),
    };
    match ascending {
        Ascending::Listed(ids) => search.look_at(ids.iter().copied()),
        Ascending::ByNumber(count) => {
            for start in (0..*count).step_by(STRIDE) {
                let end = (start + STRIDE).min(*count);
                if search.is_full() {
                    break;
                }
                if search.may_be_in(start..end) {
                    search.look_at((start..end).map(DomainId::at));
                }
            }
        }
    }
    let mut domains = search.domains;
    // The sort is stable: domains of one count stay ascending by value.
    domains.sort_by_key(|(count, _)| *count);
    domains.into_iter().map(|(_, id)| id).collect()
}

/// The best result so far.
struct Search<'a> {
    counts: &'a [u32],
    nodes_in: &'a [u32],
    /// The wanted domains; `at_count` is the number of those with the largest count that are still
    /// missing.
    bound: Bound,
    domains: Vec<(u32, DomainId)>,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.domains.len() >= self.bound.total
    }

    /// Returns whether a domain with one of these numbers may be wanted.
    fn may_be_in(&self, numbers: std::ops::Range<usize>) -> bool {
        let most = match self.bound.at_count {
            // Only smaller counts are wanted now. Some are left, because the list is not full.
            0 => self.bound.count.saturating_sub(1),
            _ => self.bound.count,
        };
        match self.counts.get(numbers) {
            Some(counts) => counts
                .iter()
                .fold(false, |any, count| any | (*count <= most)),
            None => true,
        }
    }

    fn look_at(&mut self, ids: impl Iterator<Item = DomainId>) {
        let Bound { total, count, .. } = self.bound;
        for id in ids {
            if self.domains.len() >= total {
                return;
            }
            let own = self.counts.get(id.index()).copied().unwrap_or(0);
            let is_domain = || self.nodes_in.get(id.index()).is_some_and(|n| *n > 0);
            if own > count || (own == count && self.bound.at_count == 0) || !is_domain() {
                continue;
            }
            self.bound.at_count -= usize::from(own == count);
            self.domains.push((own, id));
        }
    }
}
