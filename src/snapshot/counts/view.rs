//! The number of matching pods in each domain, kept up to date.

use std::collections::BTreeMap;

use super::domain::DomainId;
use super::partition::{Move, Partition};
use super::partition_in_use::{PartitionId, next_serial};
use super::usage::{DecisionId, Usage};
use crate::account::heap;
use crate::snapshot::objects::slots::Slot;

/// The number of domains above which the counts are also kept in order, so that the smallest is
/// known without reading all of them.
const MANY_DOMAINS: usize = 64;

/// The matching pods per domain of a partition.
#[derive(Debug, Clone)]
pub struct View {
    partition: PartitionId,
    counts: Vec<u32>,
    /// The number of domains at each count; only for many domains.
    levels: Option<BTreeMap<u32, u32>>,
    /// The bytes of the view when it was made, or last got more domains.
    bytes: usize,
    pub(in crate::snapshot) usage: Usage,
}

impl View {
    /// A view of these numbers of pods per node, first used by a decision at this tick.
    pub fn counting(
        nodes: impl Iterator<Item = (Slot, u32)>,
        id: PartitionId,
        partition: &Partition,
        used: (u64, DecisionId),
    ) -> Self {
        let mut counts = vec![0; partition.id_bound()];
        for (slot, pods) in nodes {
            let domain = partition.member(slot);
            if domain.is_some() {
                counts[domain.index()] += pods;
            }
        }
        let levels = (partition.domain_count() > MANY_DOMAINS).then(|| {
            let mut levels = BTreeMap::new();
            for domain in partition.domains() {
                *levels.entry(counts[domain.index()]).or_default() += 1;
            }
            levels
        });
        let mut view = Self {
            partition: id,
            counts,
            levels,
            bytes: 0,
            usage: Usage::new(used, next_serial()),
        };
        view.measure();
        view
    }

    fn measure(&mut self) {
        let levels = self.levels.as_ref().map_or(0, BTreeMap::len);
        self.bytes = heap::shared(size_of::<Self>())
            + heap::list::<u32>(self.counts.capacity())
            + heap::tree::<u32, u32>(levels);
    }

    /// The partition of the view.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Matching pods in a domain; 0 if the value is no domain.
    pub fn count(&self, domain: DomainId) -> u32 {
        self.counts.get(domain.index()).copied().unwrap_or(0)
    }

    /// Matching pods by domain; domains past its end have none.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The smallest count of a domain; `None` without domains.
    pub fn smallest(&self, partition: &Partition) -> Option<u32> {
        match &self.levels {
            Some(levels) => levels.first_key_value().map(|(count, _)| *count),
            None => partition.domains().map(|domain| self.count(domain)).min(),
        }
    }

    /// The smallest count of a domain, if `domain` had `more` pods more.
    pub fn smallest_with(&self, partition: &Partition, domain: DomainId, more: u32) -> u32 {
        let own = self.count(domain);
        let others = match &self.levels {
            Some(levels) => {
                let has_others = |(count, domains): &(&u32, &u32)| **count != own || **domains > 1;
                levels.iter().find(has_others).map(|(count, _)| *count)
            }
            None => {
                let others = partition.domains().filter(|other| *other != domain);
                others.map(|other| self.count(other)).min()
            }
        };
        others.map_or(own + more, |others| others.min(own + more))
    }

    /// The largest count of a domain.
    pub fn largest(&self) -> u32 {
        let counts = || self.counts.iter().copied().max();
        let levels = self.levels.as_ref();
        let largest = levels.map_or_else(counts, |l| l.last_key_value().map(|(count, _)| *count));
        largest.unwrap_or(0)
    }

    /// The number of domains at each count, if the counts are kept in order.
    pub fn levels(&self) -> Option<&BTreeMap<u32, u32>> {
        self.levels.as_ref()
    }

    /// Follows `pods` more matching pods in a domain.
    pub fn add(&mut self, domain: DomainId, pods: u32) {
        self.set(domain, self.count(domain) + pods);
    }

    /// Follows `pods` fewer matching pods in a domain.
    pub fn remove(&mut self, domain: DomainId, pods: u32) {
        self.set(domain, self.count(domain) - pods);
    }

    fn set(&mut self, domain: DomainId, to: u32) {
        self.leave_level(self.count(domain));
        self.write(domain, to);
        self.enter_level(to);
    }

    /// Follows the move of a node with `pods` matching pods on it.
    pub fn follow(&mut self, change: &Move, pods: u32) {
        if change.from.is_some() {
            let count = self.count(change.from);
            self.leave_level(count);
            self.write(change.from, count - pods);
            if !change.from_vanishes {
                self.enter_level(count - pods);
            }
        }
        if change.to.is_some() {
            let count = self.count(change.to);
            if !change.to_appears {
                self.leave_level(count);
            }
            self.write(change.to, count + pods);
            self.enter_level(count + pods);
        }
    }

    fn write(&mut self, domain: DomainId, count: u32) {
        if self.counts.len() <= domain.index() {
            self.counts.resize(domain.index() + 1, 0);
            self.measure();
        }
        self.counts[domain.index()] = count;
    }

    fn enter_level(&mut self, count: u32) {
        if let Some(levels) = &mut self.levels {
            *levels.entry(count).or_default() += 1;
        }
    }

    fn leave_level(&mut self, count: u32) {
        if let Some(levels) = &mut self.levels {
            let domains = levels
                .get_mut(&count)
                .expect("a domain stands at its count");
            *domains -= 1;
            if *domains == 0 {
                levels.remove(&count);
            }
        }
    }

    /// Returns whether there are now so many more domains that a new view would keep its counts in
    /// order.
    pub fn is_outgrown(&self, domain_count: usize) -> bool {
        self.levels.is_none() && domain_count > 4 * MANY_DOMAINS
    }

    /// Returns the view's bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
