//! The constraints of a Fleet decision with their counts, the verdicts on clusters, and the effect of
//! a pick on both.

use super::super::active::{Active, NO_CONSTRAINTS};
use super::super::filter::Filter;
use super::super::hard::{ChangingCounts, SkewRule};
use super::super::placement::HardOutlook;
use super::super::question::NodeChecks;
use super::super::report::{DomainReport, Report};
use super::super::verdict::{NodeRefusal, Reason};
use super::placement::PlacementSpec;
use crate::matching::Selector;
use crate::snapshot::{
    DomainCounts, DomainId, DomainKey, Query, ReadView, Slot, Stopped, partition,
};

/// The number that a soft constraint subtracts from the score of a cluster that violates it.
const SOFT_PENALTY: i64 = 1000;

/// A constraint with the number of holders in each domain.
#[derive(Clone)]
pub struct HolderSpread<'a> {
    /// The constraint.
    pub active: Active,
    /// The number of holders in each domain.
    counted: DomainCounts<'a>,
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

impl HolderRange {
    fn of(counted: &DomainCounts<'_>) -> Self {
        let holders = || counted.domains().map(|id| counted.matching_pods(id));
        let fewest = holders().min().unwrap_or(0);
        Self {
            fewest,
            most: holders().max().unwrap_or(0),
            is_single: holders().filter(|of| *of == fewest).count() == 1,
        }
    }
}

impl<'a> HolderSpread<'a> {
    /// Counts the holders of each domain, over all clusters.
    pub fn of(active: &Active, read_view: &ReadView<'a>) -> Result<Self, Stopped> {
        let held = holders(active.counted(), read_view)?;
        read_view.deadline.step(read_view.nodes.len())?;
        let held = read_view.nodes.order().iter().filter(|slot| held(**slot));
        let held = held.map(|slot| (*slot, 1));
        let counted = read_view.count_nodes(&active.partition, held)?;
        Ok(Self {
            active: active.clone(),
            range: HolderRange::of(&counted),
            counted,
        })
    }

    /// The domain of a cluster; [`DomainId::NONE`] when it lacks the key.
    fn domain_of(&self, slot: Slot) -> DomainId {
        self.counted.domain_of(slot)
    }

    fn class(&self, domain: DomainId) -> Class {
        if !domain.is_some() {
            return Class::Keyless;
        }
        let holders = self.counted.matching_pods(domain);
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
        let fewest = |id: &DomainId| self.counted.matching_pods(*id) == self.range.fewest;
        let lowest = self.counted.domains().find(fewest);
        let admits = |id| self.effect(self.class(id)).is_some();
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
            counts: ChangingCounts::from(&self.counted),
        }
    }

    /// The value by which [`Self::outlook`] judges a cluster. The flag is true if a pick of the
    /// cluster counts.
    pub fn judged_by(&self, slot: Slot) -> (usize, bool) {
        let domain = self.domain_of(slot);
        match domain.is_some() {
            true => (domain.index(), true),
            false => (self.counted.value_count(), false),
        }
    }

    /// Counts a pick of a cluster, if it has a domain and the constraint counts picks.
    pub fn add(&mut self, slot: Slot) {
        if self.active.counts_itself() {
            self.counted.add(slot);
            self.range = HolderRange::of(&self.counted);
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
        let max_skew = i64::from(self.active.constraint.max_skew);
        let domain = |id| {
            let skew = self.after(self.class(id));
            DomainReport {
                tally: self.counted.domain(id),
                skew,
                feasible: skew <= max_skew,
                feasible_nodes: 0,
            }
        };
        let listed = self.counted.fewest(max_domains).into_iter();
        Report {
            active: &self.active,
            domain_count: self.counted.domain_count(),
            global_minimum: i64::from(self.range.fewest),
            min_domains_unmet: false,
            domains: listed.map(domain).collect(),
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
            holders: spread.counted.matching_pods(domain),
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
