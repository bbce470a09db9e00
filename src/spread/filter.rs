//! Which nodes satisfy the hard constraints (`docs/semantics.md`, "Filter").

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::active::{Active, Constraints};
use super::checks::Checks;
use super::question::{NodeChecks, Question};
use super::report::{DomainTally, Report};
use super::skew::{GlobalMinimum, SkewRule};
use super::verdict::{NodeRefusal, Reason};
use crate::snapshot::{DomainCounts, DomainId, PartitionInUse, ReadView, Slot, bits};

/// The hard constraints of a question, counted and ready to judge nodes.
pub struct Filter<'a> {
    hard: Vec<HardCount<'a>>,
    /// The checks besides spread, and the nodes that pass them.
    checks: Option<(&'a Checks, PartitionInUse)>,
    read_view: ReadView<'a>,
}

struct HardCount<'a> {
    active: &'a Active,
    counted: DomainCounts<'a>,
    minimum: GlobalMinimum,
    rule: SkewRule,
}

/// How many nodes pass, and how many fail for which reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Nodes that were judged.
    pub judged: usize,
    /// Those that pass.
    pub feasible: usize,
    /// Those that fail, by reason.
    pub refused: BTreeMap<Reason, usize>,
}

impl Tallies {
    /// Notes nodes that fail for a reason.
    pub fn refuse(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.refused.entry(reason).or_default() += nodes;
        }
    }
}

/// Which of some nodes pass, and why the others fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// A bit per node: whether it passes.
    pub pass: FixedBitSet,
    /// How many pass, and how many fail for which reason.
    pub tallies: Tallies,
}

impl Judgement {
    /// This number of nodes, all of which still pass.
    fn new(nodes: usize) -> Self {
        let mut pass = FixedBitSet::with_capacity(nodes);
        pass.insert_range(..);
        Self {
            pass,
            tallies: Tallies {
                judged: nodes,
                feasible: nodes,
                ..Tallies::default()
            },
        }
    }

    /// Refuses the nodes that are not in `passing` and were not refused before:
    /// the first reason decides.
    fn narrow(&mut self, reason: Reason, passing: &FixedBitSet) {
        self.pass.intersect_with(passing);
        let left = self.pass.count_ones(..);
        let refused = std::mem::replace(&mut self.tallies.feasible, left) - left;
        self.tallies.refuse(reason, refused);
    }
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
            checks: all.then(|| (&question.checks, question.checks.passing(read_view))),
            read_view: *read_view,
        }
    }

    /// Judges an existing node: the first check or constraint that it fails
    /// decides.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot) -> Result<(), NodeRefusal> {
        if let Some((checks, passing)) = &self.checks
            && !passing.partition.is_eligible(slot)
            && let Some(node) = self.read_view.nodes.get(slot)
        {
            return Err(NodeRefusal::by_node(checks.reason(node)));
        }
        self.hard.iter().try_for_each(|hard| hard.judge(slot))
    }

    /// Judges many existing nodes: [`Self::judge`] without the numbers.
    pub fn judge_all(&self, slots: &[Slot]) -> Judgement {
        let mut judged = Judgement::new(slots.len());
        let nodes = self.read_view.nodes;
        if let Some((checks, passing)) = &self.checks
            && passing.partition.eligible_total() < nodes.len()
        {
            for (reason, in_use) in checks.stages(&self.read_view) {
                let partition = &in_use.partition;
                if nodes.is_order(slots) {
                    judged.narrow(reason, partition.eligible_in_order(nodes));
                } else {
                    let eligible = bits(slots, |slot| partition.is_eligible(*slot));
                    judged.narrow(reason, &eligible);
                }
            }
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
        let checked =
            |(_, passing): &(&Checks, PartitionInUse)| passing.partition.eligible_total() == nodes;
        self.hard.is_empty() && self.checks.as_ref().is_none_or(checked)
    }

    /// Judges all nodes and only counts. With at most one hard constraint the
    /// cost depends on the number of domains, not of nodes.
    pub fn tally_all(&self) -> Tallies {
        if self.hard.len() > 1 {
            return self.judge_all(self.read_view.nodes.order()).tallies;
        }
        let nodes = self.read_view.nodes.len();
        let mut tallies = Tallies {
            judged: nodes,
            ..Tallies::default()
        };
        let mut passing = nodes;
        if let Some((checks, in_use)) = &self.checks
            && in_use.partition.eligible_total() < nodes
        {
            passing = in_use.partition.eligible_total();
            for (reason, nodes) in checks.refusals(&self.read_view) {
                tallies.refuse(reason, nodes);
            }
        }
        tallies.feasible = passing;
        if let [hard] = &*self.hard {
            let (keyed, skewed) = match &self.checks {
                Some((checks, _)) if passing < nodes => {
                    let topology = &hard.active.partition.topology;
                    let in_use = checks.passing_by(topology, &self.read_view);
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
        let refusal = |reason, matching_pods, skew| NodeRefusal {
            reason,
            constraint_index: Some(self.active.index),
            matching_pods,
            skew,
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
