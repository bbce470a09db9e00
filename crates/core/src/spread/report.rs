//! The numbers behind a constraint.

use std::collections::HashMap;

use super::active::Active;
use super::hard::{GlobalMinimum, SkewRule};
use crate::snapshot::{DomainCount, DomainCounts, NodeRef, ReadView, Slot, Stopped};

/// The numbers behind one constraint.
#[derive(Debug)]
pub struct Report<'a> {
    /// The constraint.
    pub active: &'a Active,
    /// The number of domains.
    pub domain_count: usize,
    /// The minimum from which skews are measured.
    pub global_minimum: i64,
    /// True if there are fewer domains than `minDomains`.
    pub min_domains_unmet: bool,
    /// The listed domains, ascending by count, then by value.
    pub domains: Vec<DomainReport<'a>>,
    /// Weight of a count in Score; 0 in Filter.
    pub weight: f64,
}

/// One domain of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainReport<'a> {
    /// The counts of the domain.
    pub tally: DomainCount<'a>,
    /// The skew of the domain with the pod in it.
    pub skew: i64,
    /// True if the constraint admits the pod in the domain.
    pub feasible: bool,
    /// The number of feasible candidates in the domain; 0 unless they were counted.
    pub feasible_nodes: i64,
}

impl<'a> Report<'a> {
    /// A report on `domain_count` domains that contains those in `listed`, in order. A soft
    /// constraint admits the pod everywhere.
    pub fn of(
        active: &'a Active,
        domain_count: usize,
        listed: impl IntoIterator<Item = DomainCount<'a>>,
        minimum: GlobalMinimum,
    ) -> Self {
        let rule = SkewRule::of(active, minimum.pods);
        let domain = |tally: DomainCount<'a>| DomainReport {
            tally,
            skew: rule.skew(tally.matching_pods),
            feasible: !active.constraint.is_hard() || rule.admits(tally.matching_pods),
            feasible_nodes: 0,
        };
        Self {
            active,
            domain_count,
            global_minimum: minimum.pods,
            min_domains_unmet: minimum.min_domains_unmet,
            domains: listed.into_iter().map(domain).collect(),
            weight: 0.0,
        }
    }

    /// The report on counts, with the domains with the fewest pods.
    pub fn counted(active: &'a Active, counted: &'a DomainCounts<'_>, max_domains: usize) -> Self {
        let minimum = GlobalMinimum::counted(active, counted, counted.smallest());
        let listed = counted.fewest(max_domains).into_iter();
        let listed = listed.map(|id| counted.domain(id));
        Self::of(active, counted.domain_count(), listed, minimum)
    }

    /// Returns how many of these nodes are in each domain, by the domain's value.
    pub fn nodes_in_domains<'n>(
        &self,
        nodes: impl Iterator<Item = NodeRef<'n>>,
    ) -> HashMap<&'n str, i64> {
        let key = &*self.active.constraint.topology_key;
        let missing = self.active.partition.missing_is_empty.then_some("");
        let mut nodes_in = HashMap::new();
        for value in nodes.filter_map(|node| node.label_text(key).or(missing)) {
            *nodes_in.entry(value).or_default() += 1;
        }
        nodes_in
    }

    /// Counts the feasible nodes in each domain.
    pub fn count_feasible(
        &mut self,
        slots: &[Slot],
        read_view: &ReadView<'_>,
    ) -> Result<(), Stopped> {
        read_view.deadline.step(slots.len())?;
        let nodes = slots.iter().filter_map(|slot| read_view.nodes.get(*slot));
        let nodes_in = self.nodes_in_domains(nodes);
        for domain in &mut self.domains {
            let nodes = nodes_in.get(domain.tally.value);
            domain.feasible_nodes = nodes.copied().unwrap_or(0);
        }
        Ok(())
    }

    /// The listed domains with the fewest pods, ascending by value. They are complete if all
    /// domains are listed.
    pub fn lowest(&self) -> Vec<&'a str> {
        let pods = |domain: &DomainReport<'_>| domain.tally.matching_pods;
        let mut levels = self.domains.chunk_by(|a, b| pods(a) == pods(b));
        let lowest = levels.next().unwrap_or_default();
        lowest.iter().map(|domain| domain.tally.value).collect()
    }
}

/// The first `max` of `all`, in order.
pub fn first<T: Ord>(mut all: Vec<T>, max: usize) -> Vec<T> {
    if max < all.len() {
        all.select_nth_unstable(max);
        all.truncate(max);
    }
    all.sort_unstable();
    all
}
