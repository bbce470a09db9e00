//! Which nodes satisfy the hard constraints (`docs/semantics.md`, "Filter").

use std::collections::BTreeMap;
use std::sync::Arc;

use super::active::{Active, Constraints};
use super::checks::Checks;
use super::question::{NodeChecks, Question};
use super::report::{Report, Tally};
use super::verdict::{Reason, Refusal};
use crate::snapshot::{Counted, Cut, DomainId, Lens, Slot};

/// The hard constraints of a question, counted and ready to judge nodes.
pub struct Filter<'a> {
    hard: Vec<Hard<'a>>,
    /// The checks besides spread, and the nodes that pass them.
    checks: Option<(&'a Checks, Lens)>,
    cut: Cut<'a>,
}

struct Hard<'a> {
    active: &'a Active,
    counted: Counted<'a>,
    minimum: i64,
    /// The most matching pods that a domain may have for the pod to go there.
    most: i64,
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

impl<'a> Filter<'a> {
    /// Counts what the hard constraints of a question need.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints,
        checks: NodeChecks,
        cut: &Cut<'a>,
    ) -> Self {
        let hard = constraints
            .hard()
            .map(|active| Hard::of(active, cut.count(active.query())));
        let all = checks == NodeChecks::All;
        Self {
            hard: hard.collect(),
            checks: all.then(|| (&question.checks, question.checks.passing(cut))),
            cut: *cut,
        }
    }

    /// Judges an existing node: the first check or constraint that it fails
    /// decides.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot) -> Result<(), Refusal> {
        if let Some((checks, passing)) = &self.checks
            && !passing.partition.is_eligible(slot)
            && let Some(node) = self.cut.nodes.get(slot)
        {
            return Err(Refusal::by_node(checks.reason(node)));
        }
        self.hard.iter().try_for_each(|hard| hard.judge(slot))
    }

    /// Whether each of `slots` passes: [`Self::judge`] without the reasons.
    pub fn pass(&self, slots: &[Slot]) -> Vec<bool> {
        let mut pass = match &self.checks {
            Some((_, passing)) if passing.partition.eligible_total() < self.cut.nodes.len() => {
                let eligible = passing.partition.eligible();
                slots
                    .iter()
                    .map(|slot| eligible.get(slot.index()) == Some(&true))
                    .collect()
            }
            _ => vec![true; slots.len()],
        };
        for hard in &self.hard {
            hard.narrow(slots, &mut pass);
        }
        pass
    }

    /// Whether every node passes.
    pub fn passes_all(&self) -> bool {
        let nodes = self.cut.nodes.len();
        let checked = |(_, passing): &(&Checks, Lens)| passing.partition.eligible_total() == nodes;
        self.hard.is_empty() && self.checks.as_ref().is_none_or(checked)
    }

    /// Judges all nodes and only counts. With at most one hard constraint that
    /// costs its domains, not the nodes.
    pub fn tally_all(&self) -> Tallies {
        if self.hard.len() > 1 {
            let order = self.cut.nodes.order();
            return self.tally(order, &self.pass(order));
        }
        let nodes = self.cut.nodes.len();
        let mut tallies = Tallies {
            judged: nodes,
            ..Tallies::default()
        };
        let mut passing = nodes;
        if let Some((checks, lens)) = &self.checks
            && lens.partition.eligible_total() < nodes
        {
            passing = lens.partition.eligible_total();
            for (reason, nodes) in checks.refusals(&self.cut) {
                tallies.refuse(reason, nodes);
            }
        }
        tallies.feasible = passing;
        if let [hard] = &*self.hard {
            let (keyed, skewed) = match &self.checks {
                Some((checks, _)) if passing < nodes => {
                    let topology = &hard.active.partition.topology;
                    let lens = checks.passing_by(topology, &self.cut);
                    // Lenses that came after others were dropped may number
                    // the domains anew.
                    if !Arc::ptr_eq(&lens.topology, &hard.counted.lens().topology) {
                        let order = self.cut.nodes.order();
                        return self.tally(order, &self.pass(order));
                    }
                    hard.tally(lens.partition.nodes_in())
                }
                _ => hard.tally(hard.counted.lens().topology.nodes_in()),
            };
            tallies.feasible = keyed - skewed;
            tallies.refuse(Reason::MissingTopologyKey, passing - keyed);
            tallies.refuse(Reason::Skew, skewed);
        }
        tallies
    }

    /// Counts verdicts on `slots`, given which of them pass.
    pub fn tally(&self, slots: &[Slot], pass: &[bool]) -> Tallies {
        let feasible = pass.iter().filter(|pass| **pass).count();
        let mut tallies = Tallies {
            judged: slots.len(),
            feasible,
            ..Tallies::default()
        };
        if self.refuses_by_skew_only() {
            tallies.refuse(Reason::Skew, slots.len() - feasible);
            return tallies;
        }
        // Runs of a reason are counted at once: there are few reasons and many
        // nodes.
        let refused = slots.iter().zip(pass).filter(|(_, pass)| !**pass);
        let mut run = (Reason::Skew, 0);
        for reason in refused.filter_map(|(slot, _)| Some(self.judge(*slot).err()?.reason)) {
            if reason != run.0 {
                tallies.refuse(run.0, run.1);
                run = (reason, 0);
            }
            run.1 += 1;
        }
        tallies.refuse(run.0, run.1);
        tallies
    }

    /// Whether no node can be refused for anything but skew.
    fn refuses_by_skew_only(&self) -> bool {
        let nodes = self.cut.nodes.len();
        let checks = self.checks.as_ref();
        checks.is_none_or(|(_, passing)| passing.partition.eligible_total() == nodes)
            && self
                .hard
                .iter()
                .all(|hard| hard.counted.lens().topology.keyed() == nodes)
    }

    /// The numbers behind each hard constraint.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.hard
            .iter()
            .map(|hard| hard.report(max_domains))
            .collect()
    }
}

impl<'a> Hard<'a> {
    fn of(active: &'a Active, counted: Counted<'a>) -> Self {
        let minimum = match counted.smallest() {
            Some(smallest) if counted.domain_count() >= min_domains(active) => i64::from(smallest),
            _ => 0,
        };
        let most = i64::from(active.constraint.max_skew) + minimum - active.self_match;
        Self {
            active,
            counted,
            minimum,
            most,
        }
    }

    /// Unsets `pass` for the nodes that fail.
    fn narrow(&self, slots: &[Slot], pass: &mut [bool]) {
        let admits = |count: &u32| i64::from(*count) <= self.most;
        let mut admits: Vec<bool> = match u32::try_from(self.most) {
            Ok(most) => self
                .counted
                .counts()
                .iter()
                .map(|count| *count <= most)
                .collect(),
            Err(_) => self.counted.counts().iter().map(admits).collect(),
        };
        admits.resize(self.counted.value_count(), self.most >= 0);
        self.counted.zip_domains(slots, 0, pass, |domain, pass| {
            // Being in no domain is past the end.
            *pass &= admits.get(domain.index()).copied().unwrap_or(false);
        });
    }

    /// How many of the nodes in each domain there are, and how many of those
    /// the constraint refuses.
    fn tally(&self, nodes_in: &[u32]) -> (usize, usize) {
        let (mut keyed, mut skewed) = (0, 0);
        for (index, nodes) in nodes_in.iter().enumerate() {
            let matching_pods = self.counted.matching_pods(DomainId::at(index));
            keyed += *nodes as usize;
            if i64::from(matching_pods) > self.most {
                skewed += *nodes as usize;
            }
        }
        (keyed, skewed)
    }

    fn judge(&self, slot: Slot) -> Result<(), Refusal> {
        let refusal = |reason, matching_pods, skew| Refusal {
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
        if matching_pods <= self.most {
            return Ok(());
        }
        let skew = matching_pods + self.active.self_match - self.minimum;
        Err(refusal(Reason::Skew, matching_pods, skew))
    }

    fn report(&self, max_domains: usize) -> Report<'_> {
        let tally = |domain| {
            let domain = self.counted.domain(domain);
            Tally {
                value: domain.value,
                matching_pods: i64::from(domain.matching_pods),
                eligible_nodes: i64::from(domain.eligible_nodes),
            }
        };
        let tallies = self.counted.domains().map(tally).collect();
        let max_skew = i64::from(self.active.constraint.max_skew);
        let admits = |skew| skew <= max_skew;
        Report {
            min_domains_unmet: self.counted.domain_count() < min_domains(self.active),
            ..Report::of(self.active, tallies, max_domains, self.minimum, admits)
        }
    }
}

pub(super) fn min_domains(active: &Active) -> usize {
    usize::try_from(active.constraint.min_domains.unwrap_or(1)).unwrap_or(1)
}
