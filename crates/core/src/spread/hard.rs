//! Hard constraints: the arithmetic by which they admit domains (`docs/semantics.md`, "Filter"), which
//! is nowhere else, one with its counts, which judges nodes, and the numbers behind a constraint.

use std::collections::{BTreeMap, HashMap};

use fixedbitset::FixedBitSet;

use super::filter::NominatedOn;
use super::question::Active;
use super::verdict::{NodeRefusal, Reason};
use crate::matching::Constraint;
use crate::snapshot::{DomainCount, DomainCounts, DomainId, NodeRef, ReadView, Slot, Stopped};

/// The global minimum of a constraint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlobalMinimum {
    /// The count that skews are measured from.
    pub pods: i64,
    /// True if the minimum is 0 because there are fewer domains than `minDomains`.
    pub min_domains_unmet: bool,
}

impl GlobalMinimum {
    /// The minimum of a constraint with these counts, if the smallest of them is this one.
    pub fn counted(active: &Active, counted: &DomainCounts<'_>, smallest: Option<u32>) -> Self {
        let hard = Some(&active.constraint).filter(|constraint| constraint.is_hard());
        Self::of(hard, counted.domain_count(), smallest)
    }

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

/// The count of each value of a topology key, which follows pods that come and go.
#[derive(Debug, Clone, Default)]
pub struct ChangingCounts {
    /// The counts; `None` for a value that is no domain.
    counts: Vec<Option<u32>>,
    /// The number of domains at each count.
    levels: BTreeMap<u32, usize>,
}

impl ChangingCounts {
    /// The count of a value; 0 if the value is no domain.
    pub fn count(&self, value: usize) -> u32 {
        self.counts.get(value).copied().flatten().unwrap_or(0)
    }

    /// Returns the number of values.
    pub fn value_count(&self) -> usize {
        self.counts.len()
    }

    /// The domains with their counts.
    pub fn all(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.counts.iter().enumerate();
        all.filter_map(|(value, count)| Some((value, (*count)?)))
    }

    /// Changes the count of a value, if the value is a domain.
    pub fn change(&mut self, value: usize, change: impl FnOnce(u32) -> u32) {
        let Some(count) = self.counts.get_mut(value).and_then(Option::as_mut) else {
            return;
        };
        if let Some(domains) = self.levels.get_mut(count) {
            *domains -= 1;
            if *domains == 0 {
                self.levels.remove(count);
            }
        }
        *count = change(*count);
        *self.levels.entry(*count).or_default() += 1;
    }

    /// The smallest count of a domain; `None` without domains.
    pub fn smallest(&self) -> Option<u32> {
        self.levels.keys().next().copied()
    }

    /// The largest count of a domain; 0 without domains.
    pub fn largest(&self) -> u32 {
        self.levels.keys().next_back().copied().unwrap_or(0)
    }

    /// The counts of domains, ascending, each with the number of domains that have it.
    pub fn levels(&self) -> impl Iterator<Item = (u32, usize)> {
        self.levels
            .iter()
            .map(|(count, domains)| (*count, *domains))
    }

    /// Returns the number of pods that all domains together lack to reach a count.
    pub fn below(&self, least: u32) -> usize {
        let below = self.levels.range(..least);
        below
            .map(|(count, domains)| (least - count) as usize * domains)
            .sum()
    }

    /// Returns the number of pods by which all domains together exceed a count.
    pub fn above(&self, most: u32) -> usize {
        let above = self.levels.range(most.saturating_add(1)..);
        above
            .map(|(count, domains)| (count - most) as usize * domains)
            .sum()
    }
}

impl From<&DomainCounts<'_>> for ChangingCounts {
    fn from(counted: &DomainCounts<'_>) -> Self {
        // The last stands for nodes without the key.
        let mut counts = vec![None; counted.value_count() + 1];
        let mut levels = BTreeMap::new();
        for domain in counted.domains() {
            let count = counted.matching_pods(domain);
            counts[domain.index()] = Some(count);
            *levels.entry(count).or_default() += 1;
        }
        Self { counts, levels }
    }
}

/// A hard constraint with its counts. It admits the pod in some domains and refuses it in others.
#[derive(Clone)]
pub struct HardCount<'a> {
    /// The constraint.
    pub active: &'a Active,
    /// The counts of the domains.
    pub counted: DomainCounts<'a>,
    /// The rule that decides which counts are admitted.
    pub rule: SkewRule,
}

impl<'a> HardCount<'a> {
    /// Makes the rule of a constraint from its counts.
    pub fn of(active: &'a Active, counted: DomainCounts<'a>) -> Self {
        let minimum = GlobalMinimum::counted(active, &counted, counted.smallest());
        Self {
            rule: SkewRule::of(active, minimum.pods),
            active,
            counted,
        }
    }

    /// Counts one more pod like that of the question on a node.
    pub fn add(&mut self, slot: Slot) {
        if self.active.counts_itself() {
            self.counted.add(slot);
            self.rule = self.rule_at(self.counted.smallest());
        }
    }

    /// Returns which of `slots` are in a domain that the pod may go to.
    pub fn admitted(&self, slots: &[Slot]) -> FixedBitSet {
        let limit = self.rule.limit();
        if limit < 0 {
            return FixedBitSet::with_capacity(slots.len());
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        self.counted.at_most(slots, limit)
    }

    /// Returns how many nodes are in the domains, and how many of them the constraint
    /// refuses.
    pub fn tally(&self, nodes_in: &[u32]) -> (usize, usize) {
        let (mut keyed, mut skewed) = (0, 0);
        for (index, nodes) in nodes_in.iter().enumerate() {
            let matching_pods = self.counted.matching_pods(DomainId::at(index));
            keyed += *nodes as usize;
            if !self.rule.admits(matching_pods.into()) {
                skewed += *nodes as usize;
            }
        }
        (keyed, skewed)
    }

    /// Judges a node, as if nominated pods were on it.
    pub fn judge(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Result<(), NodeRefusal> {
        let refusal = |reason, matching_pods, skew| {
            NodeRefusal::by_constraint(reason, self.active.index, matching_pods, skew)
        };
        let domain = self.counted.domain_of(slot);
        if domain == DomainId::NONE {
            return Err(refusal(Reason::MissingTopologyKey, 0, 0));
        }
        let more = self.nominated_on(slot, with);
        let rule = match more {
            0 => self.rule,
            more => self.rule_at(Some(self.counted.smallest_with(domain, more))),
        };
        let matching_pods = i64::from(self.counted.matching_pods(domain)) + i64::from(more);
        if rule.admits(matching_pods) {
            return Ok(());
        }
        let skew = rule.skew(matching_pods);
        Err(refusal(Reason::Skew, matching_pods, skew))
    }

    /// Returns how many of the pods nominated to a node count for the constraint.
    pub fn nominated_on(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> u32 {
        let partition = &self.counted.in_use().partition;
        with.map_or(0, |with| with.counted_by(self.active, slot, partition))
    }

    /// The rule that applies if this is the smallest count.
    pub fn rule_at(&self, smallest: Option<u32>) -> SkewRule {
        let minimum = GlobalMinimum::counted(self.active, &self.counted, smallest);
        SkewRule::of(self.active, minimum.pods)
    }
}

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
