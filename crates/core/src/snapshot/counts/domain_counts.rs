//! The answer to a query: the number of matching pods in each domain.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::domain::DomainId;
use super::fewest;
use super::layout;
use super::partition_in_use::PartitionInUse;
use super::view::View;
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
            Some(levels) if max < partition.domain_count() => fewest::by_levels(levels, max),
            _ => fewest::by_counts(self.counts(), partition.nodes_in(), max),
        };
        self.up_to(bound, partition.nodes_in())
    }

    /// As [`Self::fewest`], among the values with nodes in `nodes_in`.
    pub fn fewest_among(&self, nodes_in: &[u32], max: usize) -> Vec<DomainId> {
        self.up_to(fewest::by_counts(self.counts(), nodes_in, max), nodes_in)
    }

    fn up_to(&self, bound: fewest::Bound, nodes_in: &[u32]) -> Vec<DomainId> {
        let ascending = self.in_use.topology.ascending(self.nodes);
        fewest::before(bound, self.counts(), nodes_in, ascending)
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
        layout::bits(slots, |slot| self.domain_of(*slot).is_some())
    }

    /// Returns which of `slots` are in a domain with at most `most` matching pods.
    pub fn at_most(&self, slots: &[Slot], most: u32) -> FixedBitSet {
        if self.nodes.is_order(slots) {
            let layout = self.in_use.topology.layout(self.nodes);
            return layout.at_most(self.counts(), most);
        }
        layout::bits(slots, |slot| {
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
