//! Which nodes satisfy the hard constraints (`docs/semantics.md`, "Filter").

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::active::{Active, Constraints};
use super::checks::Checked;
use super::judgement::{Judgement, Tallies};
use super::question::{NodeChecks, Question};
use super::report::{DomainTally, Report};
use super::skew::{GlobalMinimum, SkewRule};
use super::verdict::{NodeRefusal, Reason};
use crate::snapshot::{DomainCounts, DomainId, ReadView, Slot};

/// The hard constraints of a question, counted and ready to judge nodes.
pub struct Filter<'a> {
    hard: Vec<HardCount<'a>>,
    /// The checks besides spread.
    checks: Option<Checked<'a>>,
    read_view: ReadView<'a>,
}

struct HardCount<'a> {
    active: &'a Active,
    counted: DomainCounts<'a>,
    minimum: GlobalMinimum,
    rule: SkewRule,
}

impl<'a> Filter<'a> {
    /// Makes the counts for the hard constraints of a question.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints,
        checks: NodeChecks,
        read_view: &ReadView<'a>,
    ) -> Self {
        let hard = constraints
            .hard()
            .map(|active| HardCount::of(active, read_view.count(active.query())));
        let all = checks == NodeChecks::All;
        Self {
            hard: hard.collect(),
            checks: all.then(|| Checked::of(&question.checks, read_view)),
            read_view: *read_view,
        }
    }

    /// What [`Self::judge`] and [`Self::fitting`] cost for the room of a node, in
    /// units.
    pub fn units_per_node(&self) -> usize {
        self.checks.as_ref().map_or(0, Checked::units_per_node)
    }

    /// Judges an existing node: the first check or constraint that it fails
    /// decides.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot) -> Result<(), NodeRefusal> {
        if let Some(checks) = &self.checks {
            checks.judge(slot)?;
        }
        self.hard.iter().try_for_each(|hard| hard.judge(slot))
    }

    /// How many more pods like this one an existing node has room for, and why no
    /// more where that is fewer than `wanted`. `None` where nobody asks for room.
    pub fn fitting(&self, slot: Slot, wanted: usize) -> Option<(u32, Vec<Reason>)> {
        self.checks.as_ref()?.fitting(slot, wanted)
    }

    /// Judges existing nodes at once: [`Self::judge`] without the numbers.
    pub fn judge_all(&self, slots: &[Slot]) -> Judgement {
        let mut judged = Judgement::new(slots.len());
        let nodes = self.read_view.nodes;
        if let Some(checks) = &self.checks {
            checks.narrow(slots, &mut judged);
        }
        for hard in &self.hard {
            if hard.counted.in_use().topology.keyed() < nodes.len() {
                let keyed = hard.counted.keyed(slots);
                judged.narrow(Reason::MissingTopologyKey, &keyed);
            }
            judged.narrow(Reason::Skew, &hard.admitted(slots));
        }
        judged
    }

    /// Whether every node passes.
    pub fn passes_all(&self) -> bool {
        let nodes = self.read_view.nodes.len();
        let passes = |checks: &Checked<'_>| !checks.look_at_nodes() && checks.passing() == nodes;
        self.hard.is_empty() && self.checks.as_ref().is_none_or(passes)
    }

    /// Judges all nodes and only counts. With at most one hard constraint, and no
    /// check that looks at each node, the cost depends on the number of domains,
    /// not of nodes.
    pub fn tally_all(&self) -> Tallies {
        if self.hard.len() > 1 || self.checks.as_ref().is_some_and(Checked::look_at_nodes) {
            return self.judge_all(self.read_view.nodes.order()).tallies;
        }
        let nodes = self.read_view.nodes.len();
        let mut tallies = Tallies {
            judged: nodes,
            ..Tallies::default()
        };
        let mut passing = nodes;
        if let Some(checks) = &self.checks
            && checks.passing() < nodes
        {
            passing = checks.passing();
            for (reason, nodes) in checks.refusals() {
                tallies.refuse(reason, nodes);
            }
        }
        tallies.feasible = passing;
        if let [hard] = &*self.hard {
            let (keyed, skewed) = match &self.checks {
                Some(checks) if passing < nodes => {
                    let in_use = checks.passing_by(&hard.active.partition.topology);
                    // A partition made anew after another was dropped may
                    // number the domains differently.
                    if !Arc::ptr_eq(&in_use.topology, &hard.counted.in_use().topology) {
                        return self.judge_all(self.read_view.nodes.order()).tallies;
                    }
                    hard.tally(in_use.partition.nodes_in())
                }
                _ => hard.tally(hard.counted.in_use().topology.nodes_in()),
            };
            tallies.feasible = keyed - skewed;
            tallies.refuse(Reason::MissingTopologyKey, passing - keyed);
            tallies.refuse(Reason::Skew, skewed);
        }
        tallies
    }

    /// The numbers behind each hard constraint.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.hard
            .iter()
            .map(|hard| hard.report(max_domains))
            .collect()
    }
}

impl<'a> HardCount<'a> {
    fn of(active: &'a Active, counted: DomainCounts<'a>) -> Self {
        let domains = counted.domain_count();
        let minimum = GlobalMinimum::of(Some(&active.constraint), domains, counted.smallest());
        Self {
            active,
            counted,
            minimum,
            rule: SkewRule::of(active, minimum.pods),
        }
    }

    /// Which of `slots` are in a domain that the pod may go to.
    fn admitted(&self, slots: &[Slot]) -> FixedBitSet {
        let limit = self.rule.limit();
        if limit < 0 {
            return FixedBitSet::with_capacity(slots.len());
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        self.counted.at_most(slots, limit)
    }

    /// How many nodes are in the domains, and how many of them the constraint
    /// refuses.
    fn tally(&self, nodes_in: &[u32]) -> (usize, usize) {
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

    fn judge(&self, slot: Slot) -> Result<(), NodeRefusal> {
        let refusal = |reason, matching_pods, skew| {
            NodeRefusal::by_constraint(reason, self.active.index, matching_pods, skew)
        };
        let domain = self.counted.domain_of(slot);
        if domain == DomainId::NONE {
            return Err(refusal(Reason::MissingTopologyKey, 0, 0));
        }
        let matching_pods = i64::from(self.counted.matching_pods(domain));
        if self.rule.admits(matching_pods) {
            return Ok(());
        }
        let skew = self.rule.skew(matching_pods);
        Err(refusal(Reason::Skew, matching_pods, skew))
    }

    fn report(&self, max_domains: usize) -> Report<'_> {
        let tally = |domain| {
            let domain = self.counted.domain(domain);
            DomainTally {
                value: domain.value,
                matching_pods: i64::from(domain.matching_pods),
                eligible_nodes: i64::from(domain.eligible_nodes),
            }
        };
        let listed = self.counted.fewest(max_domains).into_iter().map(tally);
        Report::of(
            self.active,
            self.counted.domain_count(),
            listed,
            self.minimum,
        )
    }
}
