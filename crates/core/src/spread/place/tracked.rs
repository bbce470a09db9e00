//! A constraint with counts that follow the picks.

use std::collections::{BTreeMap, HashMap};

use super::super::active::Active;
use super::super::nominated::Nominated;
use super::super::report::{Report, first};
use super::super::scoring::Weight;
use super::super::skew::{GlobalMinimum, SkewRule, change_count};
use crate::matching::Selector;
use crate::snapshot::{DomainCount, DomainId, DomainKey, Partition, ReadView, Slot, Stopped};

/// A hard constraint with more domains than this may group nodes by count.
const MANY_DOMAINS: usize = 32;

/// A hard constraint may group nodes by count if its domains have at most this many nodes on
/// average.
const FEW_NODES: usize = 64;

/// A constraint with its counts. It keeps no reference to the snapshot, so placing delays no batch
/// of writes.
#[derive(Debug, Clone)]
pub struct TrackedConstraint {
    /// The constraint.
    pub active: Active,
    /// The way in which the constraint groups nodes.
    pub grain: Grain,
    /// The last weight of a count in scoring.
    pub weight: Weight,
    /// The counts, by domain.
    counts: Vec<u32>,
    /// The number of eligible nodes, by domain. A value without eligible nodes is no domain.
    eligible_nodes: Vec<u32>,
    values: Vec<Box<str>>,
    /// For each node, the domain by which it is judged and scored.
    judged_by: Vec<DomainId>,
    /// For each node, the domain in which a pick of the node counts.
    counts_in: Vec<DomainId>,
    /// For each node, true if it has the topology key.
    keyed: Vec<bool>,
    /// For each node with nominated pods, the number of these that the constraint counts.
    nominated: HashMap<u32, u32>,
    /// True if picks change the counts.
    pub counts_picks: bool,
    domain_count: usize,
    /// The number of domains at each count.
    levels: BTreeMap<u32, usize>,
}

/// The way in which a constraint distinguishes nodes.
#[derive(Debug, Clone)]
pub enum Grain {
    /// By domain. Picks never move a node to another group.
    Domain,
    /// By count, for domains of few nodes. A pick moves the nodes of one domain to another group.
    /// The list has the nodes of each domain.
    Count(Vec<Vec<u32>>),
}

impl TrackedConstraint {
    /// A constraint for these nodes, counted on a read view.
    pub fn of(
        active: &Active,
        nodes: &[Slot],
        nominated: &Nominated<'_>,
        read_view: &ReadView<'_>,
    ) -> Result<Self, Stopped> {
        read_view.deadline.step(nodes.len())?;
        let counted = read_view.count(active.query())?;
        let in_use = counted.in_use();
        let (topology, partition) = (&in_use.topology, &in_use.partition);
        let len = topology.id_bound().max(1);
        let mut counts = counted.counts().to_vec();
        counts.resize(len, 0);
        let (mut values, mut eligible_nodes) = (vec![Box::default(); len], vec![0; len]);
        for id in partition.domains() {
            values[id.index()] = topology.value(id, read_view.nodes).into();
            eligible_nodes[id.index()] = partition.eligible_nodes(id);
        }
        let keyed_by = active.keyed.as_ref().map(|key| read_view.in_use(key));
        let keyed_by = keyed_by.transpose()?;
        let keyed_by = keyed_by
            .as_ref()
            .map_or(topology, |in_use| &in_use.topology);
        let keyed = nodes.iter().map(|slot| keyed_by.domain_of(*slot).is_some());
        let mut levels = BTreeMap::new();
        for id in partition.domains() {
            *levels.entry(counts[id.index()]).or_default() += 1;
        }
        let judged_by = |slot: &Slot| match topology.domain_of(*slot) {
            // In Score, a node without the key is in the domain of the empty value.
            DomainId::NONE if !active.constraint.is_hard() => DomainId::EMPTY,
            domain => domain,
        };
        let mut tracked = Self {
            grain: Grain::Domain,
            weight: Weight::default(),
            nominated: nominated_on(active, nodes, nominated, partition, read_view),
            levels,
            counts,
            eligible_nodes,
            values,
            judged_by: nodes.iter().map(judged_by).collect(),
            counts_in: nodes.iter().map(|slot| partition.member(*slot)).collect(),
            keyed: keyed.collect(),
            counts_picks: active.self_match > 0 && *active.counted() != Selector::Nothing,
            domain_count: partition.domain_count(),
            active: active.clone(),
        };
        tracked.grain = tracked.finest_grain();
        Ok(tracked)
    }

    /// The grain that makes picks cheapest.
    fn finest_grain(&self) -> Grain {
        let (domains, nodes) = (self.len(), self.judged_by.len());
        let by_count = if self.is_hard() {
            domains > MANY_DOMAINS && nodes / domains <= FEW_NODES
        } else {
            self.active.partition.topology == DomainKey::Node
        };
        if !by_count {
            return Grain::Domain;
        }
        let mut members = vec![Vec::new(); domains];
        for (node, domain) in (0..).zip(&self.judged_by) {
            if domain.is_some() {
                members[domain.index()].push(node);
            }
        }
        Grain::Count(members)
    }

    /// Returns whether the constraint is hard.
    pub fn is_hard(&self) -> bool {
        self.active.constraint.is_hard()
    }

    /// Returns whether a node has the topology key.
    pub fn has_key(&self, node: u32) -> bool {
        self.keyed[node as usize]
    }

    /// The domain that a node is judged and scored by.
    pub fn domain_of(&self, node: u32) -> DomainId {
        self.judged_by[node as usize]
    }

    /// The mark that the constraint gives a node: a part of its group's key.
    pub fn mark(&self, node: u32) -> u32 {
        let domain = self.domain_of(node);
        match self.grain {
            Grain::Domain => DomainId::index(domain) as u32,
            Grain::Count(_) => self.count(domain),
        }
    }

    /// The number of matching pods in the domain of nodes with this mark.
    pub fn count_of(&self, mark: u32) -> u32 {
        match self.grain {
            Grain::Domain => self.counts.get(mark as usize).copied().unwrap_or(0),
            Grain::Count(_) => mark,
        }
    }

    /// The number of matching pods in a domain.
    pub fn count(&self, domain: DomainId) -> u32 {
        self.counts.get(domain.index()).copied().unwrap_or(0)
    }

    /// The rule that decides if a domain takes one more pod.
    pub fn rule(&self) -> SkewRule {
        SkewRule::of(&self.active, self.minimum().pods)
    }

    /// Returns the number of pods nominated to a node that the constraint counts.
    pub fn nominated_on(&self, node: u32) -> u32 {
        self.nominated.get(&node).copied().unwrap_or(0)
    }

    /// Returns whether a node takes one more pod. `count` is the number of matching pods in its
    /// domain, `nominated` is [`Self::nominated_on`], and `rule` is [`Self::rule`].
    pub fn admits(&self, rule: SkewRule, count: u32, nominated: u32) -> bool {
        if nominated == 0 {
            return rule.admits(count.into());
        }
        let mut levels = self.levels.iter();
        let others = levels.find(|(level, domains)| **level != count || **domains > 1);
        let raised = count + nominated;
        let smallest = others.map_or(raised, |(level, _)| raised.min(*level));
        let rule = SkewRule::of(&self.active, self.minimum_of(Some(smallest)).pods);
        rule.admits(raised.into())
    }

    /// The domain in which a pick of a node counts, if it counts.
    pub fn counted_in(&self, node: u32) -> Option<DomainId> {
        let domain = self.counts_in[node as usize];
        domain.is_some().then_some(domain)
    }

    /// The count of each value of the topology key; `None` if the value is no domain.
    pub fn domain_counts(&self) -> impl Iterator<Item = Option<u32>> {
        let counts = self.counts.iter().zip(&self.eligible_nodes);
        counts.map(|(count, nodes)| (*nodes > 0).then_some(*count))
    }

    /// Returns an upper bound of the number of domains.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Counts a pick of a node. Returns the nodes whose mark changes.
    pub fn pick(&mut self, node: u32) -> &[u32] {
        let domain = self.counts_in[node as usize];
        if !self.counts_picks || !domain.is_some() {
            return &[];
        }
        let count = &mut self.counts[domain.index()];
        change_count(count, &mut self.levels, |count| count + 1);
        match &self.grain {
            Grain::Domain => &[],
            Grain::Count(members) => &members[domain.index()],
        }
    }

    /// The minimum from which skews are measured.
    fn minimum(&self) -> GlobalMinimum {
        let smallest = self.levels.first_key_value();
        self.minimum_of(smallest.map(|(count, _)| *count))
    }

    /// The minimum from which skews are measured if this is the smallest count.
    pub fn minimum_of(&self, smallest: Option<u32>) -> GlobalMinimum {
        let constraint = Some(&self.active.constraint).filter(|hard| hard.is_hard());
        GlobalMinimum::of(constraint, self.domain_count, smallest)
    }

    /// The numbers behind the constraint.
    pub fn report(&self, max_domains: usize) -> Report<'_> {
        let ids = (0..self.len()).filter(|i| self.eligible_nodes[*i] > 0);
        let tally = |i: usize| DomainCount {
            matching_pods: i64::from(self.counts[i]),
            value: &self.values[i],
            eligible_nodes: i64::from(self.eligible_nodes[i]),
        };
        let listed = first(ids.map(tally).collect(), max_domains);
        Report {
            weight: self.weight.per_pod,
            ..Report::of(&self.active, self.domain_count, listed, self.minimum())
        }
    }
}

/// The positions in `nodes` of nodes with nominated pods, each with the number of these pods that a
/// constraint counts.
fn nominated_on(
    active: &Active,
    nodes: &[Slot],
    nominated: &Nominated<'_>,
    partition: &Partition,
    read_view: &ReadView<'_>,
) -> HashMap<u32, u32> {
    let places = nominated.places(nodes, read_view.nodes).into_iter();
    let counted = places.filter_map(|at| {
        let on = nominated.on(nodes[at])?;
        let counted = on.counted_by(active, nodes[at], partition);
        (counted > 0).then_some((u32::try_from(at).ok()?, counted))
    });
    counted.collect()
}
