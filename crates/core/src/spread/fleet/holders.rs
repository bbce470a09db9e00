//! A constraint of the Fleet dialect with its counts, and the effect of a pick on it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::active::Active;
use super::super::place::RuleByMinimum;
use super::super::report::{DomainReport, Report, first};
use super::super::skew::SkewRule;
use super::super::verdict::Reason;
use crate::matching::Selector;
use crate::snapshot::{
    DomainCount, DomainId, DomainKey, Query, ReadView, Slot, Stopped, partition,
};

/// The number that a soft constraint subtracts from the score of a cluster that violates it.
const SOFT_PENALTY: i64 = 1000;

/// A constraint with the number of holders in each domain. It keeps no reference to the snapshot,
/// so picking delays no batch of writes.
#[derive(Debug, Clone)]
pub struct HolderSpread {
    /// The constraint.
    pub active: Active,
    /// The domain of each cluster, by slot.
    domain_of: Vec<DomainId>,
    /// The domains, by id.
    domains: Vec<HolderDomain>,
    /// The domains by number of holders.
    levels: BTreeMap<u32, BTreeSet<DomainId>>,
}

#[derive(Debug, Clone, Default)]
struct HolderDomain {
    value: Box<str>,
    /// The number of clusters. A value without clusters is no domain.
    clusters: u32,
    holders: u32,
}

/// The position of a cluster's domain among all domains. A constraint judges a cluster by nothing
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The cluster lacks the key.
    Keyless,
    /// The domain alone has the fewest holders: one more holder reduces the skew.
    Bottom,
    /// One more holder does not change the skew.
    Middle,
    /// The domain has the most holders: one more holder increases the skew.
    Top,
}

impl HolderSpread {
    /// Counts the holders of each domain, over all clusters.
    pub fn of(active: &Active, read_view: &ReadView<'_>) -> Result<Self, Stopped> {
        let in_use = read_view.in_use(&active.partition)?;
        let held = holders(active.counted(), read_view)?;
        read_view.deadline.step(read_view.nodes.len())?;
        let mut domains = vec![HolderDomain::default(); in_use.topology.id_bound()];
        for id in in_use.partition.domains() {
            let domain = &mut domains[id.index()];
            domain.value = in_use.topology.value(id, read_view.nodes).into();
            domain.clusters = in_use.partition.eligible_nodes(id);
        }
        let domain_of = in_use.topology.domains_by_slot().to_vec();
        for slot in read_view.nodes.order().iter().filter(|slot| held(**slot)) {
            let domain = in_use.topology.domain_of(*slot);
            if let Some(domain) = domains.get_mut(domain.index()) {
                domain.holders += 1;
            }
        }
        let mut levels: BTreeMap<u32, BTreeSet<DomainId>> = BTreeMap::new();
        for id in in_use.partition.domains() {
            let holders = domains[id.index()].holders;
            levels.entry(holders).or_default().insert(id);
        }
        Ok(Self {
            active: active.clone(),
            domain_of,
            domains,
            levels,
        })
    }

    /// The domain of a cluster; [`DomainId::NONE`] when it lacks the key.
    pub fn domain_of(&self, slot: Slot) -> DomainId {
        let domain = self.domain_of.get(slot.index());
        domain.copied().unwrap_or(DomainId::NONE)
    }

    /// The class of a domain.
    pub fn class(&self, domain: DomainId) -> Class {
        if !domain.is_some() {
            return Class::Keyless;
        }
        let holders = self.domains[domain.index()].holders;
        if holders == self.largest() {
            return Class::Top;
        }
        if self.loner() == Some(domain) {
            Class::Bottom
        } else {
            Class::Middle
        }
    }

    /// Returns the effect of one more holder in a domain of a class on the score; `None` when the
    /// cluster must not be picked.
    pub fn effect(&self, class: Class) -> Option<i64> {
        let change = match class {
            Class::Keyless => return Some(0),
            Class::Bottom => -1,
            Class::Middle => 0,
            Class::Top => 1,
        };
        if self.after(class) <= i64::from(self.active.constraint.max_skew) {
            Some(-change)
        } else if self.active.constraint.is_hard() {
            None
        } else {
            Some(-SOFT_PENALTY)
        }
    }

    /// Returns whether the constraint admits a cluster.
    pub fn admits(&self, slot: Slot) -> bool {
        self.effect(self.class(self.domain_of(slot))).is_some()
    }

    /// The skew with one more holder in a domain of a class.
    pub fn after(&self, class: Class) -> i64 {
        let skew = i64::from(self.largest() - self.smallest());
        match class {
            Class::Keyless | Class::Middle => skew,
            Class::Bottom => skew - 1,
            Class::Top => skew + 1,
        }
    }

    /// The number of holders in a domain.
    pub fn holders(&self, domain: DomainId) -> u32 {
        self.domains.get(domain.index()).map_or(0, |d| d.holders)
    }

    /// Returns whether the constraint counts the placement itself.
    pub fn counts_picks(&self) -> bool {
        self.active.self_match > 0
    }

    /// Returns whether picks can change which domains the constraint admits. They cannot if the
    /// constraint admits no domain at all, or does not count picks.
    pub fn follows_picks(&self) -> bool {
        let mut fewest = self.levels.values().flatten();
        let admits = |domain: &DomainId| self.effect(self.class(*domain)).is_some();
        self.counts_picks() && fewest.next().is_some_and(admits)
    }

    /// The number of holders for each value of the topology key, `None` for a value that is no
    /// domain. The last entry, `None`, stands for clusters without the key.
    pub fn holders_by_value(&self) -> Vec<Option<u32>> {
        let values = self.domains.iter();
        let values = values.map(|domain| (domain.clusters > 0).then_some(domain.holders));
        values.chain([None]).collect()
    }

    /// The index in [`Self::holders_by_value`] by which a cluster is judged. The flag is true if a
    /// pick of the cluster counts.
    pub fn judged_by(&self, slot: Slot) -> (usize, bool) {
        let domain = self.domain_of(slot);
        match domain.is_some() {
            true => (domain.index(), true),
            false => (self.domains.len(), false),
        }
    }

    /// Counts a pick in a domain, if the cluster has a domain and the constraint counts picks.
    /// Returns the domains whose class may have changed, which are few on average.
    pub fn add(&mut self, domain: DomainId) -> Vec<DomainId> {
        if !domain.is_some() || !self.counts_picks() {
            return Vec::new();
        }
        let (largest, loner) = (self.largest(), self.loner());
        let holders = self.domains[domain.index()].holders;
        let level = self.levels.get_mut(&holders).expect("a domain has a level");
        level.remove(&domain);
        if level.is_empty() {
            self.levels.remove(&holders);
        }
        self.levels.entry(holders + 1).or_default().insert(domain);
        self.domains[domain.index()].holders += 1;

        let mut moved = vec![domain];
        if self.largest() != largest {
            moved.extend(self.levels.get(&largest).into_iter().flatten());
        }
        if self.loner() != loner {
            moved.extend(loner.into_iter().chain(self.loner()));
        }
        moved
    }

    fn smallest(&self) -> u32 {
        self.levels.first_key_value().map_or(0, |(least, _)| *least)
    }

    fn largest(&self) -> u32 {
        self.levels.last_key_value().map_or(0, |(most, _)| *most)
    }

    /// The domain with the fewest holders, if there is only one such domain.
    fn loner(&self) -> Option<DomainId> {
        let (_, lowest) = self.levels.first_key_value()?;
        lowest.first().filter(|_| lowest.len() == 1).copied()
    }

    /// The reason for refusing a cluster by the constraint.
    pub fn violation(&self) -> Reason {
        let constraint = &self.active.constraint;
        let words = format!(
            "violated doNotSchedule topology spread constraint {:?} (max skew {})",
            constraint.topology_key, constraint.max_skew
        );
        Reason::Violation(words.into())
    }

    /// The numbers behind the constraint.
    pub fn report(&self, max_domains: usize) -> Report<'_> {
        let ids = (0..self.domains.len()).map(DomainId::at);
        let ids = ids.filter(|id| self.domains[id.index()].clusters > 0);
        let all: Vec<(DomainCount<'_>, DomainId)> = ids.map(|id| (self.tally(id), id)).collect();
        let domain_count = all.len();
        let max_skew = i64::from(self.active.constraint.max_skew);
        let domain = |(tally, id)| {
            let skew = self.after(self.class(id));
            DomainReport {
                tally,
                skew,
                feasible: skew <= max_skew,
                feasible_nodes: 0,
            }
        };
        Report {
            active: &self.active,
            domain_count,
            global_minimum: i64::from(self.smallest()),
            min_domains_unmet: false,
            domains: first(all, max_domains).into_iter().map(domain).collect(),
            weight: 0.0,
        }
    }

    fn tally(&self, id: DomainId) -> DomainCount<'_> {
        let domain = &self.domains[id.index()];
        DomainCount {
            matching_pods: i64::from(domain.holders),
            value: &domain.value,
            eligible_nodes: i64::from(domain.clusters),
        }
    }
}

impl RuleByMinimum for HolderSpread {
    // The skew after a pick must not exceed max skew. If the skew exceeds max skew before, only a
    // pick in the domain with the fewest holders can be admitted.
    fn rule_at(&self, smallest: Option<u32>) -> SkewRule {
        let max_skew = i64::from(self.active.constraint.max_skew);
        let is_over = self.after(Class::Middle) > max_skew && smallest == Some(self.smallest());
        SkewRule {
            max_skew: if is_over { 1 } else { max_skew },
            ..SkewRule::of(&self.active, smallest.unwrap_or(0).into())
        }
    }
}

/// Returns a test for the clusters that hold a placement: those on which a matching pod counts.
pub fn holders(
    selector: &Selector,
    read_view: &ReadView<'_>,
) -> Result<impl Fn(Slot) -> bool + use<>, Stopped> {
    let by_cluster = partition::Key::everywhere(DomainKey::Node);
    let counted = read_view.count(Query {
        selector,
        partition: &by_cluster,
    })?;
    let counts = counted.counts().to_vec();
    Ok(move |slot: Slot| counts.get(slot.index()).is_some_and(|pods| *pods > 0))
}
