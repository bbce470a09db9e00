//! Which nodes satisfy the hard constraints (`docs/semantics.md`, "Filter").

use super::active::{Active, Constraints};
use super::question::{NodeChecks, Question};
use super::report::{Report, Tally};
use super::verdict::{Reason, Refusal};
use crate::snapshot::{
    Counted, Cut, DomainId, Lens, NodeRef, Nodes, Slot, partition::admits_cordon, topology,
};

/// The hard constraints of a question, counted and ready to judge nodes.
pub struct Filter<'a> {
    hard: Vec<Hard<'a>>,
    checks: Option<Checks<'a>>,
    nodes: &'a Nodes,
}

struct Hard<'a> {
    active: &'a Active,
    counted: Counted<'a>,
    minimum: i64,
    /// The most matching pods that a domain may have for the pod to go there.
    most: i64,
}

/// What a node is checked for besides spread.
struct Checks<'a> {
    question: &'a Question,
    /// The nodes that pass.
    passing: Lens,
}

/// How many nodes pass, and how many fail for which reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Nodes that were judged.
    pub judged: usize,
    /// Those that pass.
    pub feasible: usize,
    /// Those that fail, by reason.
    pub refused: std::collections::BTreeMap<Reason, usize>,
}

impl Tallies {
    /// Notes a verdict.
    pub fn note(&mut self, verdict: Result<(), Refusal>) {
        self.judged += 1;
        match verdict {
            Ok(()) => self.feasible += 1,
            Err(refusal) => *self.refused.entry(refusal.reason).or_default() += 1,
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
            checks: all.then(|| Checks {
                question,
                passing: cut.lens(&question.checked_nodes(topology::Key::Node)),
            }),
            nodes: cut.nodes,
        }
    }

    /// Judges an existing node: the first check or constraint that it fails
    /// decides.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot) -> Result<(), Refusal> {
        if let Some(checks) = &self.checks
            && !checks.passing.partition.is_eligible(slot)
            && let Some(node) = self.nodes.get(slot)
        {
            return Err(Refusal::by_node(checks.reason(node)));
        }
        self.hard.iter().try_for_each(|hard| hard.judge(slot))
    }

    /// Whether an existing node passes: [`Self::judge`] without the reason.
    pub fn passes(&self, slot: Slot) -> bool {
        let checked = self
            .checks
            .as_ref()
            .is_none_or(|c| c.passing.partition.is_eligible(slot));
        checked && self.hard.iter().all(|hard| hard.passes(slot))
    }

    /// Judges all nodes and only counts. With at most one constraint that
    /// costs its domains, not the nodes.
    pub fn tally_all(&self, cut: &Cut<'_>) -> Tallies {
        if let Some(tallies) = self.tally_domains(cut) {
            return tallies;
        }
        let mut tallies = Tallies::default();
        for slot in self.nodes.order() {
            tallies.note(self.judge(*slot));
        }
        tallies
    }

    fn tally_domains(&self, cut: &Cut<'_>) -> Option<Tallies> {
        let judged = self.nodes.len();
        let all = self
            .checks
            .as_ref()
            .map(|checks| checks.passing.partition.eligible_total());
        let passing = all.unwrap_or(judged);
        // Who fails a check, and by which, is only known node by node.
        if passing != judged || self.hard.len() > 1 {
            return None;
        }
        let mut tallies = Tallies {
            judged,
            feasible: judged,
            ..Tallies::default()
        };
        let [hard] = &*self.hard else {
            return Some(tallies);
        };
        let everybody = cut.lens(&hard.active.everybody());
        let (mut keyed, mut skewed) = (0, 0);
        for domain in everybody.partition.domains() {
            let nodes = everybody.partition.eligible_nodes(domain) as usize;
            keyed += nodes;
            if i64::from(hard.counted.matching_pods(domain)) > hard.most {
                skewed += nodes;
            }
        }
        tallies.feasible = keyed - skewed;
        let refused = [
            (Reason::MissingTopologyKey, judged - keyed),
            (Reason::Skew, skewed),
        ];
        tallies
            .refused
            .extend(refused.into_iter().filter(|(_, nodes)| *nodes > 0));
        Some(tallies)
    }

    /// The numbers behind each hard constraint.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.hard
            .iter()
            .map(|hard| hard.report(max_domains))
            .collect()
    }
}

impl Checks<'_> {
    /// Why a node fails that does.
    fn reason(&self, node: NodeRef<'_>) -> Reason {
        let tolerations = &self.question.tolerations;
        if !admits_cordon(tolerations, node) {
            Reason::Unschedulable
        } else if !tolerations.tolerate_all(node.taints()) {
            Reason::UntoleratedTaint
        } else {
            Reason::NodeAffinity
        }
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

    fn passes(&self, slot: Slot) -> bool {
        let domain = self.counted.domain_of(slot);
        domain.is_some() && i64::from(self.counted.matching_pods(domain)) <= self.most
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

fn min_domains(active: &Active) -> usize {
    usize::try_from(active.constraint.min_domains.unwrap_or(1)).unwrap_or(1)
}
