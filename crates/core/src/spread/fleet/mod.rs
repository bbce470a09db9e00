//! The Fleet dialect (`docs/semantics.md`, "Fleet dialect"): nodes are clusters, a pod on a node is a
//! placement that the cluster holds, and a cluster holds a placement at most once. The placement that a
//! decision is about, its constraints with their counts, and the verdicts on clusters.

mod pick_n;

pub use pick_n::PickN;

use std::collections::BTreeMap;

use super::filter::Filter;
use super::hard::{ChangingCounts, DomainReport, Report, SkewRule};
use super::place::HardOutlook;

use super::question::{Active, NO_CONSTRAINTS, NodeChecks, Question, topology_of};
use super::verdict::{NodeRefusal, Reason};
use crate::limits::Limit;
use crate::matching::{Action, Constraint, Path, Policy, Selector, Violations, names};
use crate::proto::v1;
use crate::snapshot::{
    DomainCounts, DomainId, DomainKey, Limits, Query, ReadView, Slot, Stopped, partition,
};

/// The placement that a Fleet decision is about.
#[derive(Debug, Clone)]
pub struct PlacementSpec {
    /// The placement without its constraints.
    pub pod: Question,
    /// The placement's constraints in the order of evaluation: hard ones first.
    pub constraints: Vec<Active>,
    /// Selects the pods of this placement: those with all of its labels.
    pub holders: Selector,
}

impl PlacementSpec {
    /// Checks and compiles the pod of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of the pod (`docs/semantics.md`, "Fleet dialect").
    pub fn compile(
        mut wire: Option<v1::Pod>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let spec = wire.as_mut().and_then(|pod| pod.spec.as_mut());
        let constraints = spec.map(|s| std::mem::take(&mut s.topology_spread_constraints));
        let constraints = constraints.unwrap_or_default();
        let mut faults = Violations::default();
        let pod = faults.collect(Question::compile(wire.as_ref(), limits, path));
        // A cluster takes the placed resources as a whole, so only labels and taints are checked.
        let pod = pod.map(Question::of_labels_and_taints);

        let spec = path.field("spec");
        let list = spec.field("topologySpreadConstraints");
        let count = constraints.len();
        if !faults.within(list, limits, Limit::ConstraintsPerPod, count) {
            return Err(faults);
        }
        let no_labels = BTreeMap::new();
        let labels = pod.as_ref().map_or(&no_labels, |pod| &pod.subject.labels);
        let holders = Selector::from_labels(labels);
        let mut compiled: Vec<Active> = Vec::with_capacity(count);
        for (index, wire) in constraints.iter().enumerate() {
            let path = list.index(index);
            let constraint = compile(wire, path, &mut faults);
            let selector = match &wire.label_selector {
                None => holders.clone(),
                own => Selector::compile(own.as_ref(), path.field("labelSelector"), &mut faults),
            };
            compiled.extend(constraint.map(|constraint| {
                // The constraint counts over all clusters.
                let everywhere = partition::Key::everywhere(topology_of(&constraint));
                Active {
                    empty_counts_all: true,
                    ..Active::of(index, constraint, selector, everywhere, labels)
                }
            }));
        }
        // The sort is stable: hard constraints and soft constraints each stay in order.
        compiled.sort_by_key(|active| !active.constraint.is_hard());
        match pod {
            Some(pod) => faults.finish(Self {
                pod,
                constraints: compiled,
                holders,
            }),
            None => Err(faults),
        }
    }
}

fn compile(
    wire: &v1::TopologySpreadConstraint,
    path: Path<'_>,
    faults: &mut Violations,
) -> Option<Constraint> {
    if wire.max_skew < 0 {
        faults.add(path.field("maxSkew"), "must be at least 1");
    }
    names::check_label_key(&wire.topology_key, path.field("topologyKey"), faults);
    for (name, is_set) in [
        ("minDomains", wire.min_domains.is_some()),
        ("nodeAffinityPolicy", wire.node_affinity_policy.is_some()),
        ("nodeTaintsPolicy", wire.node_taints_policy.is_some()),
        ("matchLabelKeys", !wire.match_label_keys.is_empty()),
    ] {
        if is_set {
            faults.add(path.field(name), "does not apply in the Fleet dialect");
        }
    }
    let action = match &*wire.when_unsatisfiable {
        "" => Action::DoNotSchedule,
        given => Action::compile(given, path, faults)?,
    };
    Some(Constraint {
        // The Fleet dialect has a max skew of 1 when unset.
        max_skew: wire.max_skew.max(1),
        topology_key: wire.topology_key.as_str().into(),
        action,
        min_domains: None,
        node_affinity_policy: Policy::Ignore,
        node_taints_policy: Policy::Ignore,
    })
}

/// A constraint as evaluated, for the wire. Fields that the dialect does not know are left out.
pub fn to_wire(active: &Active) -> v1::TopologySpreadConstraint {
    v1::TopologySpreadConstraint {
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        ..active.to_wire()
    }
}

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

    /// The change of the skew by one more holder in a domain; `None` without a domain. A constraint
    /// judges a cluster by nothing else.
    fn change(&self, domain: DomainId) -> Option<i64> {
        let holders = self.counted.matching_pods(domain);
        let change = if holders == self.range.most {
            1
        } else if self.range.is_single && holders == self.range.fewest {
            -1
        } else {
            0
        };
        domain.is_some().then_some(change)
    }

    /// The skew at present.
    fn skew(&self) -> i64 {
        i64::from(self.range.most - self.range.fewest)
    }

    /// The skew with one more holder in a domain.
    fn skew_after(&self, domain: DomainId) -> i64 {
        self.skew() + self.change(domain).unwrap_or(0)
    }

    /// Returns the effect of one more holder in a domain on the score; `None` when the cluster must
    /// not be picked.
    fn effect(&self, domain: DomainId) -> Option<i64> {
        let Some(change) = self.change(domain) else {
            return Some(0);
        };
        if self.skew() + change <= i64::from(self.active.constraint.max_skew) {
            Some(-change)
        } else if self.active.constraint.is_hard() {
            None
        } else {
            Some(-SOFT_PENALTY)
        }
    }

    /// Returns whether the constraint admits a cluster.
    pub fn admits(&self, slot: Slot) -> bool {
        self.effect(self.domain_of(slot)).is_some()
    }

    /// The skew with one more holder on a cluster.
    pub fn skew_with(&self, slot: Slot) -> i64 {
        self.skew_after(self.domain_of(slot))
    }

    /// Returns whether picks can change which domains the constraint admits. They cannot if the
    /// constraint admits no domain at all, or does not count picks.
    pub fn follows_picks(&self) -> bool {
        let fewest = |id: &DomainId| self.counted.matching_pods(*id) == self.range.fewest;
        let lowest = self.counted.domains().find(fewest);
        let admits = |id| self.effect(id).is_some();
        self.active.counts_itself() && lowest.is_some_and(admits)
    }

    /// The limits that the constraint sets to further picks. The skew after a pick must not exceed max
    /// skew. If it exceeds max skew before, only a pick in the domain with the fewest holders can be
    /// admitted.
    pub fn outlook(&self) -> HardOutlook {
        let is_over = self.skew() > i64::from(self.active.constraint.max_skew);
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

    /// The refusal of a cluster by the constraint.
    pub fn refusal(&self, slot: Slot) -> NodeRefusal {
        let holders = self.counted.matching_pods(self.domain_of(slot));
        let (index, skew) = (self.active.index, self.skew_with(slot));
        NodeRefusal::by_constraint(self.violation(), index, holders.into(), skew)
    }

    /// The numbers behind the constraint.
    pub fn report(&self, max_domains: usize) -> Report<'_> {
        let max_skew = i64::from(self.active.constraint.max_skew);
        let domain = |id| {
            let skew = self.skew_after(id);
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
        let score = || score(&self.spreads, slot).map_err(|by| by.refusal(slot));
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
/// The first hard constraint that does not admit it.
pub fn score<'s, 'a>(
    spreads: &'s [HolderSpread<'a>],
    slot: Slot,
) -> Result<i64, &'s HolderSpread<'a>> {
    let effect = |spread: &HolderSpread<'_>| spread.effect(spread.domain_of(slot));
    let effects = spreads.iter().map(|spread| effect(spread).ok_or(spread));
    effects.sum()
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
