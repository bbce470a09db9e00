//! The answer to a query: how many matching pods count in each domain.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::domain::DomainId;
use super::fewest::{self as least, Least};
use super::layout;
use super::partitions::Lens;
use super::view::View;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::slots::Slot;

/// The answer to a [`Query`](super::super::Query).
pub struct Counted<'a> {
    lens: Lens,
    view: Arc<View>,
    nodes: &'a Nodes,
}

/// A domain and what counts in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain<'a> {
    /// Value of the topology key.
    pub value: &'a str,
    /// Eligible nodes in it.
    pub eligible_nodes: u32,
    /// Matching pods on those nodes.
    pub matching_pods: u32,
}

impl<'a> Counted<'a> {
    /// What `view`, of the partition of `lens`, says of `nodes`.
    pub(in crate::snapshot) fn of(lens: Lens, view: Arc<View>, nodes: &'a Nodes) -> Self {
        Self { lens, view, nodes }
    }

    /// The smallest count of a domain; `None` without domains.
    pub fn smallest(&self) -> Option<u32> {
        self.view.smallest(&self.lens.partition)
    }

    /// The largest count of a domain.
    pub fn largest(&self) -> u32 {
        self.view.largest()
    }

    /// How many domains there are.
    pub fn domain_count(&self) -> usize {
        self.lens.partition.domain_count()
    }

    /// The domains.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> {
        self.lens.partition.domains()
    }

    /// At most `max` domains: those with the smallest counts, ascending by
    /// count, then by value.
    pub fn least(&self, max: usize) -> Vec<DomainId> {
        let partition = &self.lens.partition;
        let cut = match self.view.levels() {
            Some(levels) if max < partition.domain_count() => least::by_levels(levels, max),
            _ => least::by_counts(self.counts(), partition.nodes_in(), max),
        };
        self.up_to(cut, partition.nodes_in())
    }

    /// As [`Self::least`], of the values that have any in `nodes_in`.
    pub fn least_among(&self, nodes_in: &[u32], max: usize) -> Vec<DomainId> {
        self.up_to(least::by_counts(self.counts(), nodes_in, max), nodes_in)
    }

    fn up_to(&self, cut: least::Cut, nodes_in: &[u32]) -> Vec<DomainId> {
        let least = Least {
            counts: self.counts(),
            nodes_in,
            cut,
        };
        least.of(self.lens.topology.ascending(self.nodes))
    }

    /// What counts in a domain.
    pub fn domain(&self, id: DomainId) -> Domain<'_> {
        Domain {
            value: self.lens.topology.value(id, self.nodes),
            eligible_nodes: self.lens.partition.eligible_nodes(id),
            matching_pods: self.view.count(id),
        }
    }

    /// Matching pods in a domain; 0 in a value that is none.
    pub fn matching_pods(&self, id: DomainId) -> u32 {
        self.view.count(id)
    }

    /// The value that a node has; [`DomainId::NONE`] when it lacks the key.
    pub fn domain_of(&self, slot: Slot) -> DomainId {
        self.lens.topology.domain_of(slot)
    }

    /// Which of `slots` have the topology key.
    pub fn keyed(&self, slots: &[Slot]) -> FixedBitSet {
        if self.nodes.is_order(slots) {
            return self.lens.topology.layout(self.nodes).keyed().clone();
        }
        layout::bits(slots, |slot| self.domain_of(*slot).is_some())
    }

    /// Which of `slots` are in a domain with at most `most` matching pods.
    pub fn at_most(&self, slots: &[Slot], most: u32) -> FixedBitSet {
        if self.nodes.is_order(slots) {
            let layout = self.lens.topology.layout(self.nodes);
            return layout.at_most(self.counts(), most);
        }
        layout::bits(slots, |slot| {
            let domain = self.domain_of(*slot);
            domain.is_some() && self.view.count(domain) <= most
        })
    }

    /// One more than the largest number of a value.
    pub fn value_count(&self) -> usize {
        self.lens.topology.id_bound()
    }

    /// The nodes behind it.
    pub fn lens(&self) -> &Lens {
        &self.lens
    }

    /// Matching pods by domain; domains past its end have none.
    pub fn counts(&self) -> &[u32] {
        self.view.counts()
    }
}
