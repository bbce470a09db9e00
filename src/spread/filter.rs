//! Which nodes satisfy the hard constraints (`docs/semantics.md`, "Filter").

use super::active::{Active, Constraints};
use super::question::{NodeChecks, Question};
use super::report::{Report, Tally};
use super::verdict::{Reason, Refusal};
use crate::matching::{Effect, NodeAffinity};
use crate::snapshot::{Cut, NodeRef, Nodes, Slot, Symbol, View};

/// The taint of a cordoned node; a pod that tolerates it may go there.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// The hard constraints of a question, counted and ready to judge nodes.
pub struct Filter<'a> {
    hard: Vec<Hard<'a>>,
    node_checks: Option<Checks<'a>>,
    nodes: &'a Nodes,
}

struct Hard<'a> {
    active: &'a Active<'a>,
    view: View<'a>,
    minimum: i64,
    domain_count: usize,
}

/// What a node is checked for besides spread.
struct Checks<'a> {
    question: &'a Question,
    affinity: NodeAffinity<Symbol>,
}

impl<'a> Filter<'a> {
    /// Counts what the hard constraints of a question need.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints<'a>,
        checks: NodeChecks,
        cut: &Cut<'a>,
    ) -> Self {
        let keys: Box<[&str]> = constraints
            .hard()
            .map(|a| &*a.constraint.topology_key)
            .collect();
        let hard = constraints.hard().map(|active| {
            let query = active.query(question, keys.clone(), false);
            Hard::of(active, View::of(&query, cut.nodes, cut.namespace))
        });
        let all = checks == NodeChecks::All;
        Self {
            hard: hard.collect(),
            node_checks: all.then(|| Checks {
                question,
                affinity: cut.nodes.resolve(&question.affinity),
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
        if let (Some(checks), Some(node)) = (&self.node_checks, self.nodes.get(slot)) {
            checks.judge(node)?;
        }
        self.hard.iter().try_for_each(|hard| hard.judge(slot))
    }

    /// The numbers behind each hard constraint.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'a>> {
        self.hard
            .iter()
            .map(|hard| hard.report(max_domains))
            .collect()
    }
}

impl Checks<'_> {
    fn judge(&self, node: NodeRef<'_>) -> Result<(), Refusal> {
        let tolerations = &self.question.tolerations;
        let cordoned = node.unschedulable()
            && !tolerations.tolerate_parts(UNSCHEDULABLE_TAINT, "", Effect::NoSchedule);
        if cordoned {
            Err(Refusal::by_node(Reason::Unschedulable))
        } else if !tolerations.tolerate_all(node.taints()) {
            Err(Refusal::by_node(Reason::UntoleratedTaint))
        } else if !self.affinity.matches(&node) {
            Err(Refusal::by_node(Reason::NodeAffinity))
        } else {
            Ok(())
        }
    }
}

impl<'a> Hard<'a> {
    fn of(active: &'a Active<'a>, view: View<'a>) -> Self {
        let domain_count = view.domains().count();
        let smallest = view.domains().map(|domain| domain.matching_pods).min();
        let minimum = match smallest {
            Some(smallest) if domain_count >= min_domains(active) => i64::from(smallest),
            _ => 0,
        };
        Self {
            active,
            view,
            minimum,
            domain_count,
        }
    }

    fn judge(&self, slot: Slot) -> Result<(), Refusal> {
        let refusal = |reason, matching_pods, skew| Refusal {
            reason,
            constraint_index: Some(self.active.index),
            matching_pods,
            skew,
        };
        let Some(domain) = self.view.at(slot) else {
            return Err(refusal(Reason::MissingTopologyKey, 0, 0));
        };
        let matching_pods = i64::from(domain.matching_pods);
        let skew = self.skew(matching_pods);
        if self.admits(skew) {
            Ok(())
        } else {
            Err(refusal(Reason::Skew, matching_pods, skew))
        }
    }

    fn skew(&self, matching_pods: i64) -> i64 {
        matching_pods + self.active.self_match - self.minimum
    }

    fn admits(&self, skew: i64) -> bool {
        skew <= i64::from(self.active.constraint.max_skew)
    }

    fn report(&self, max_domains: usize) -> Report<'a> {
        let tally = self.view.domains().map(|domain| Tally {
            value: domain.value,
            matching_pods: i64::from(domain.matching_pods),
            eligible_nodes: i64::from(domain.eligible_nodes),
        });
        Report {
            global_minimum: self.minimum,
            min_domains_unmet: self.domain_count < min_domains(self.active),
            ..Report::of(
                self.active,
                tally.collect(),
                max_domains,
                self.minimum,
                |skew| self.admits(skew),
            )
        }
    }
}

fn min_domains(active: &Active<'_>) -> usize {
    usize::try_from(active.constraint.min_domains.unwrap_or(1)).unwrap_or(1)
}
