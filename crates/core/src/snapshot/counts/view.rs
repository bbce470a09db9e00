//! The number of matching pods in each domain, kept up to date.

use std::collections::BTreeMap;

use super::domain::DomainId;
use super::partition::Partition;
use crate::snapshot::objects::slots::Slot;

/// The number of domains above which the counts are also kept in order, so that the smallest is
/// known without reading all of them.
const MANY_DOMAINS: usize = 64;

/// The matching pods per domain of a partition.
#[derive(Debug, Clone)]
pub struct View {
    counts: Vec<u32>,
    /// The number of domains at each count; only for many domains.
    levels: Option<BTreeMap<u32, u32>>,
}

impl View {
    /// A view of these numbers of pods per node.
    pub fn counting(nodes: impl Iterator<Item = (Slot, u32)>, partition: &Partition) -> Self {
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
        Self { counts, levels }
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

    /// Follows one more matching pod in a domain.
    pub fn add(&mut self, domain: DomainId) {
        self.set(domain, self.count(domain) + 1);
    }

    /// Follows one matching pod fewer in a domain.
    pub fn remove(&mut self, domain: DomainId) {
        self.set(domain, self.count(domain) - 1);
    }

    fn set(&mut self, domain: DomainId, to: u32) {
        let from = std::mem::replace(&mut self.counts[domain.index()], to);
        if let Some(levels) = &mut self.levels {
            let domains = levels.get_mut(&from).expect("a domain stands at its count");
            *domains -= 1;
            if *domains == 0 {
                levels.remove(&from);
            }
            *levels.entry(to).or_default() += 1;
        }
    }
}
