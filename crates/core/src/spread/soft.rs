//! A soft constraint with its counts, which adds to the raw scores of nodes.

use super::active::Active;
use super::report::Report;
use super::scoring::Weight;
use super::skew::GlobalMinimum;
use crate::snapshot::{
    DomainCount, DomainCounts, DomainId, Nodes, PartitionInUse, ReadView, Slot, Stopped,
};

/// With at most this many domains, the class of a node is its domain, else its count.
const FEW_DOMAINS: usize = 64;

/// A soft constraint, counted.
pub(super) struct Soft<'a> {
    active: &'a Active,
    counted: DomainCounts<'a>,
    nodes: &'a Nodes,
    /// The nodes that have the topology key.
    keyed: PartitionInUse,
    /// True if all nodes have the topology key.
    pub all_keyed: bool,
    /// The number of candidates in each domain, without ignored candidates.
    candidates: Vec<u32>,
    /// True if the candidates are all nodes and each has the key.
    whole: bool,
    weight: Weight,
}

/// The classes of nodes under a constraint, which adds the same to all nodes of a class. Class 0
/// has the nodes that lack the key, for which it adds 0.
pub(super) struct Classes {
    /// The addend of a node of each class.
    pub parts: Vec<f64>,
    /// True if a class stands for a count, not for a domain.
    by_count: bool,
}

impl<'a> Soft<'a> {
    pub(super) fn of(active: &'a Active, read_view: &ReadView<'a>) -> Result<Self, Stopped> {
        let counted = read_view.count(active.query())?;
        // If every node is a domain of its own, the partition has all nodes, with or without the
        // key. So another partition says which nodes have the key.
        let keyed = match &active.keyed {
            Some(key) => read_view.in_use(key)?,
            None => counted.in_use().clone(),
        };
        Ok(Self {
            active,
            nodes: read_view.nodes,
            all_keyed: keyed.topology.keyed() == read_view.nodes.len(),
            counted,
            keyed,
            candidates: Vec::new(),
            whole: false,
            weight: Weight::default(),
        })
    }

    /// Returns whether a node has the topology key.
    pub(super) fn has_key(&self, slot: Slot) -> bool {
        self.all_keyed || self.keyed.topology.domain_of(slot).is_some()
    }

    /// Sets the weight from the number of domains of the candidates that are not ignored.
    pub(super) fn weigh(&mut self, slots: &[Slot], ignored: Option<&[bool]>) {
        self.whole = ignored.is_none() && self.all_keyed && self.nodes.is_order(slots);
        let candidates = self.candidates_by_domain(slots, ignored);
        let size = candidates
            .iter()
            .filter(|candidates| **candidates > 0)
            .count();
        self.weight = Weight::of(&self.active.constraint, size);
        self.candidates = candidates;
    }

    fn candidates_by_domain(&self, slots: &[Slot], ignored: Option<&[bool]>) -> Vec<u32> {
        if self.whole {
            return self.counted.in_use().topology.nodes_in().to_vec();
        }
        let mut candidates = vec![0; self.counted.value_count().max(1)];
        let is_ignored = |index: usize| ignored.is_some_and(|ignored| ignored[index]);
        for (_, slot) in slots.iter().enumerate().filter(|(i, _)| !is_ignored(*i)) {
            // A candidate without the key is in the domain of the empty value.
            let domain = match self.counted.domain_of(*slot) {
                DomainId::NONE => DomainId::EMPTY,
                domain => domain,
            };
            candidates[domain.index()] += 1;
        }
        candidates
    }

    /// Returns the addend of the constraint to the raw score of a node.
    pub(super) fn part_of(&self, slot: Slot) -> f64 {
        if !self.has_key(slot) {
            return 0.0;
        }
        match self.counted.domain_of(slot) {
            DomainId::NONE => 0.0,
            domain => self.weight.part(self.counted.matching_pods(domain)),
        }
    }

    /// Returns the number of classes.
    pub(super) fn class_count(&self) -> usize {
        let (domains, counts) = (self.counted.value_count(), self.counted.largest() as usize);
        1 + if domains <= FEW_DOMAINS {
            domains
        } else {
            counts + 1
        }
    }

    /// The classes; their number is [`Self::class_count`].
    pub(super) fn classes(&self) -> Classes {
        let by_count = self.counted.value_count() > FEW_DOMAINS;
        let part = |class: usize| match class.checked_sub(1) {
            None => 0.0,
            Some(count) if by_count => self.weight.part(u32::try_from(count).unwrap_or(u32::MAX)),
            Some(domain) => self
                .weight
                .part(self.counted.matching_pods(DomainId::at(domain))),
        };
        Classes {
            parts: (0..self.class_count()).map(part).collect(),
            by_count,
        }
    }

    /// Adds the class of each of `slots`, times `stride`, to its number.
    pub(super) fn add_classes(
        &self,
        classes: &Classes,
        slots: &[Slot],
        stride: u32,
        numbers: &mut [u32],
    ) {
        let counts = self.counted.counts();
        let of_domain = |domain: DomainId| match domain {
            DomainId::NONE => 0,
            domain if classes.by_count => self.counted.matching_pods(domain) + 1,
            // There are few domains, so their numbers are small.
            domain => domain.index() as u32 + 1,
        };
        if !self.all_keyed || !self.nodes.is_order(slots) {
            for (slot, number) in slots.iter().zip(numbers) {
                if self.has_key(*slot) {
                    *number += of_domain(self.counted.domain_of(*slot)) * stride;
                }
            }
            return;
        }
        let layout = self.counted.in_use().topology.layout(self.nodes);
        if classes.by_count
            && let Some(counts) = layout.in_a_row(counts)
        {
            for (count, number) in counts.iter().zip(numbers) {
                *number += (*count + 1) * stride;
            }
            return;
        }
        for (domain, number) in layout.domains().iter().zip(numbers) {
            *number += of_domain(*domain) * stride;
        }
    }

    /// The numbers behind the constraint.
    pub(super) fn report(&self, max_domains: usize) -> Report<'_> {
        let counted = &self.counted;
        let partition = &counted.in_use().partition;
        let domain_count = self.candidates.iter().filter(|n| **n > 0).count();
        // If all nodes are candidates and as many domains are in the partition, the domains are the
        // same.
        let same = self.whole && partition.domain_count() == domain_count;
        let minimum = || {
            let domains = self.candidates.iter().enumerate().filter(|(_, n)| **n > 0);
            domains
                .map(|(i, _)| counted.matching_pods(DomainId::at(i)))
                .min()
        };
        let (listed, minimum) = if same {
            (counted.fewest(max_domains), counted.smallest())
        } else {
            let least = counted.fewest_among(&self.candidates, max_domains);
            (least, minimum())
        };
        let tally = |id: DomainId| DomainCount {
            eligible_nodes: self.candidates[id.index()].into(),
            ..counted.domain(id)
        };
        // No soft constraint has `minDomains`.
        let minimum = GlobalMinimum::of(None, domain_count, minimum);
        let listed = listed.into_iter().map(tally);
        Report {
            weight: self.weight.per_pod,
            ..Report::of(self.active, domain_count, listed, minimum)
        }
    }
}
