//! The constraints of a Fleet decision with their counts, the verdicts on clusters, and the effect of
//! a pick on both.

use super::super::active::{Active, NO_CONSTRAINTS};
use super::super::filter::Filter;
use super::super::hard::{ChangingCounts, SkewRule};
use super::super::placement::HardOutlook;
use super::super::question::NodeChecks;
use super::super::report::{DomainReport, Report, first};
use super::super::verdict::{NodeRefusal, Reason};
use super::placement::PlacementSpec;
use crate::matching::Selector;
use crate::snapshot::{
    DomainCount, DomainId, DomainKey, Nodes, PartitionInUse, Query, ReadView, Slot, Stopped,
    partition,
};

/// The number that a soft constraint subtracts from the score of a cluster that violates it.
const SOFT_PENALTY: i64 = 1000;

/// A constraint with the number of holders in each domain.
#[derive(Clone)]
pub struct HolderSpread<'a> {
    /// The constraint.
    pub active: Active,
    in_use: PartitionInUse,
    nodes: &'a Nodes,
    holders: ChangingCounts,
    /// The range of the counts of domains.
    range: HolderRange,
}

/// The range of the counts of domains.
#[derive(Debug, Clone, Copy)]
struct HolderRange {
    fewest: u32,
    most: u32,
    /// True if a single domain has the fewest.
    is_single: bool,
}

/// The position of a cluster's domain among all domains. A constraint judges a cluster by nothing
/// else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The cluster lacks the key.
    Keyless,
    /// The domain alone has the fewest holders: one more holder reduces the skew.
    Bottom,
    /// One more holder does not change the skew.
    Middle,
    /// The domain has the most holders: one more holder increases the skew.
    Top,
}

impl From<&ChangingCounts> for HolderRange {
    fn from(holders: &ChangingCounts) -> Self {
        let (fewest, domains) = holders.levels().next().unwrap_or_default();
        Self {
            fewest,
            most: holders.largest(),
            is_single: domains == 1,
        }
    }
}

impl<'a> HolderSpread<'a> {
    /// Counts the holders of each domain, over all clusters.
    pub fn of(active: &Active, read_view: &ReadView<'a>) -> Result<Self, Stopped> {
        let in_use = read_view.in_use(&active.partition)?;
        let held = holders(active.counted(), read_view)?;
        read_view.deadline.step(read_view.nodes.len())?;
        // The last stands for clusters without the key.
        let mut counts = vec![None; in_use.topology.id_bound() + 1];
        for id in in_use.partition.domains() {
            counts[id.index()] = Some(0);
        }
        for slot in read_view.nodes.order().iter().filter(|slot| held(**slot)) {
            let domain = in_use.topology.domain_of(*slot);
            if let Some(Some(holders)) = counts.get_mut(domain.index()) {
                *holders += 1;
            }
        }
        let holders = ChangingCounts::new(counts);
        Ok(Self {
            active: active.clone(),
            nodes: read_view.nodes,
            range: HolderRange::from(&holders),
            holders,
            in_use,
        })
    }

    /// The domain of a cluster; [`DomainId::NONE`] when it lacks the key.
    fn domain_of(&self, slot: Slot) -> DomainId {
        self.in_use.topology.domain_of(slot)
    }

    fn class(&self, domain: DomainId) -> Class {
        if !domain.is_some() {
            return Class::Keyless;
        }
        let holders = self.holders.count(domain.index());
        if holders == self.range.most {
            Class::Top
        } else if self.range.is_single && holders == self.range.fewest {
            Class::Bottom
        } else {
            Class::Middle
        }
    }

    /// Returns the effect of one more holder in a domain of a class on the score; `None` when the
    /// cluster must not be picked.
    fn effect(&self, class: Class) -> Option<i64> {
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

    /// The skew with one more holder on a cluster.
    pub fn skew_with(&self, slot: Slot) -> i64 {
        self.after(self.class(self.domain_of(slot)))
    }

    /// The skew with one more holder in a domain of a class.
    fn after(&self, class: Class) -> i64 {
        let skew = i64::from(self.range.most - self.range.fewest);
        match class {
            Class::Keyless | Class::Middle => skew,
            Class::Bottom => skew - 1,
            Class::Top => skew + 1,
        }
    }

    /// Returns whether picks can change which domains the constraint admits. They cannot if the
    /// constraint admits no domain at all, or does not count picks.
    pub fn follows_picks(&self) -> bool {
        let fewest = |(_, holders): &(usize, u32)| *holders == self.range.fewest;
        let lowest = self.holders.all().find(fewest);
        let admits = |(at, _)| self.effect(self.class(DomainId::at(at))).is_some();
        self.active.counts_itself() && lowest.is_some_and(admits)
    }

    /// The limits that the constraint sets to further picks. The skew after a pick must not exceed max
    /// skew. If it exceeds max skew before, only a pick in the domain with the fewest holders can be
    /// admitted.
    pub fn outlook(&self) -> HardOutlook {
        let is_over = self.after(Class::Middle) > i64::from(self.active.constraint.max_skew);
        HardOutlook {
            rule: SkewRule::of(&self.active, 0),
            from_zero: false,
            narrow_at: is_over.then_some(self.range.fewest),
            counts: self.holders.clone(),
        }
    }

    /// The value by which [`Self::outlook`] judges a cluster. The flag is true if a pick of the
    /// cluster counts.
    pub fn judged_by(&self, slot: Slot) -> (usize, bool) {
        let domain = self.domain_of(slot);
        match domain.is_some() {
            true => (domain.index(), true),
            false => (self.in_use.topology.id_bound(), false),
        }
    }

    /// Counts a pick of a cluster, if it has a domain and the constraint counts picks.
    pub fn add(&mut self, slot: Slot) {
        let domain = self.domain_of(slot);
        if domain.is_some() && self.active.counts_itself() {
            self.holders.change(domain.index(), |holders| holders + 1);
            self.range = HolderRange::from(&self.holders);
        }
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
        let tally = |(at, holders): (usize, u32)| {
            let id = DomainId::at(at);
            let tally = DomainCount {
                matching_pods: holders.into(),
                value: self.in_use.topology.value(id, self.nodes),
                eligible_nodes: self.in_use.partition.eligible_nodes(id).into(),
            };
            (tally, id)
        };
        let all: Vec<(DomainCount<'_>, DomainId)> = self.holders.all().map(tally).collect();
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
            global_minimum: i64::from(self.range.fewest),
            min_domains_unmet: false,
            domains: first(all, max_domains).into_iter().map(domain).collect(),
            weight: 0.0,
        }
    }
}

/// A placement's constraints, counted and ready to judge clusters.
pub struct Judge<'a> {
    /// The constraints, hard ones first.
    pub spreads: Vec<HolderSpread<'a>>,
    /// The checks of a cluster other than the constraints.
    pub checks: Filter<'a>,
}

/// A cluster that a hard constraint does not admit.
#[derive(Clone, Copy)]
pub struct OverSkew<'a> {
    /// The constraint.
    pub spread: &'a HolderSpread<'a>,
    /// Holders in the cluster's domain.
    pub holders: u32,
    /// The skew that would result.
    pub skew: i64,
}

impl<'a> Judge<'a> {
    /// Makes the counts for a question.
    pub fn of(
        question: &'a PlacementSpec,
        checks: NodeChecks,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let spreads = question.constraints.iter();
        let spreads = spreads.map(|active| HolderSpread::of(active, read_view));
        Ok(Self {
            spreads: spreads.collect::<Result<_, _>>()?,
            checks: Filter::of(&question.pod, &NO_CONSTRAINTS, checks, read_view)?,
        })
    }

    /// The topology spread score of a cluster that passes the checks and the hard constraints. The
    /// first check or constraint that fails decides.
    ///
    /// # Errors
    /// The deadline has passed; inside, the refusal.
    pub fn judge(&self, slot: Slot) -> Result<Result<i64, NodeRefusal>, Stopped> {
        let judged = self.checks.judge(slot)?;
        let score = || score(&self.spreads, slot).map_err(|over| over.refusal());
        Ok(judged.and_then(|()| score()))
    }

    /// The numbers behind the constraints, hard ones first.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let spreads = self.spreads.iter();
        spreads.map(|spread| spread.report(max_domains)).collect()
    }
}

/// The topology spread score of a cluster.
///
/// # Errors
/// The first refusal.
pub fn score<'s>(spreads: &'s [HolderSpread<'_>], slot: Slot) -> Result<i64, OverSkew<'s>> {
    let mut sum = 0;
    for spread in spreads {
        let domain = spread.domain_of(slot);
        let class = spread.class(domain);
        sum += spread.effect(class).ok_or_else(|| OverSkew {
            spread,
            holders: spread.holders.count(domain.index()),
            skew: spread.after(class),
        })?;
    }
    Ok(sum)
}

impl OverSkew<'_> {
    /// Returns the refusal, without the constraint's index.
    pub fn refusal(&self) -> NodeRefusal {
        NodeRefusal::by_constraint(
            self.spread.violation(),
            self.spread.active.index,
            self.holders.into(),
            self.skew,
        )
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
