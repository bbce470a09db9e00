//! The answers of the recount.

use std::collections::BTreeMap;

use super::constraints::ResolvedConstraint;
use super::rules::{labels, name};
use evenkeel::proto::v1::{Code, Node};

/// The answer about one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecount {
    /// Name of the node.
    pub node: String,
    /// Absent when the node is feasible.
    pub refusal: Option<Rejection>,
}

/// The reason why a node is not feasible.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// The code: whether other pods could make the node feasible.
    pub code: Code,
    /// Kubernetes' words for it: one reason, or one for each resource that the node has too little
    /// of.
    pub reasons: Vec<String>,
    /// Index of the constraint; -1 when no spread constraint decided.
    pub constraint_index: i32,
    /// Pods that the constraint counts in the node's domain.
    pub matching_pods: i64,
    /// Skew of the node's domain if the pod went there.
    pub skew: i64,
    /// The number of pods nominated to the node, if these alone keep the pod off it.
    pub nominated_pods: i64,
}

impl Rejection {
    /// A rejection that no spread constraint decided, and that changes of other pods can resolve.
    pub(super) fn resolvable(reason: &str) -> Self {
        Self::by_node(Code::Unschedulable, vec![reason.to_owned()])
    }

    /// A rejection that no spread constraint decided, and that no change of other pods can resolve.
    pub(super) fn unresolvable(reason: &str) -> Self {
        Self::by_node(Code::UnschedulableAndUnresolvable, vec![reason.to_owned()])
    }

    /// A rejection that no spread constraint decided.
    pub(super) fn by_node(code: Code, reasons: Vec<String>) -> Self {
        Self {
            code,
            reasons,
            constraint_index: -1,
            matching_pods: 0,
            skew: 0,
            nominated_pods: 0,
        }
    }
}

/// The numbers behind one constraint.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstraintRecount {
    /// The constraint as evaluated.
    pub constraint: ResolvedConstraint,
    /// 1 when the constraint counts the incoming pod itself, else 0.
    pub self_match: i64,
    /// The global minimum.
    pub minimum: i64,
    /// The counts by value of the topology key.
    pub domains: BTreeMap<String, DomainRecount>,
    /// The number of domains; in Score, the size that the weight follows from.
    pub size: i64,
    /// Weight of a count in Score; 0 in Filter.
    pub weight: f64,
    /// True if it refuses no node that has the key: each pod of a DaemonSet counts the node to which
    /// it is tied.
    pub counts_own_node: bool,
}

/// The count of a constraint in one domain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DomainRecount {
    /// Matching pods on the domain's nodes.
    pub matching_pods: i64,
    /// Eligible nodes; in Score, scored candidates.
    pub nodes: i64,
    /// Candidates that are feasible; 0 in Score.
    pub feasible: i64,
}

/// The answer of Filter.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterRecount {
    /// One verdict for each node that was judged, in order.
    pub verdicts: Vec<NodeRecount>,
    /// One report for each hard constraint, in order.
    pub reports: Vec<ConstraintRecount>,
}

/// The answer of Score.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRecount {
    /// True if there was nothing to score by.
    pub skipped: bool,
    /// One score for each candidate, in order.
    pub scores: Vec<ScoredNode>,
    /// One report for each soft constraint, in order; none when skipped.
    pub reports: Vec<ConstraintRecount>,
}

/// The score of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoredNode {
    /// Name of the node.
    pub node: String,
    /// The sum before it was normalized to 0..100; lower is better.
    pub raw: i64,
    /// 0 to 100, higher is better.
    pub score: i64,
    /// True if the node was ignored because it lacks a topology key.
    pub ignored: bool,
}

impl FilterRecount {
    /// Names of the feasible nodes.
    pub fn feasible(&self) -> Vec<String> {
        let passed = self.verdicts.iter().filter(|v| v.refusal.is_none());
        passed.map(|v| v.node.clone()).collect()
    }

    /// Counts the feasible nodes in each domain.
    pub(super) fn with_feasible_in_domains(mut self, nodes: &[Node]) -> Self {
        let feasible = self.feasible();
        let is_feasible =
            |node: &&Node| feasible.iter().any(|it| it == name(node.metadata.as_ref()));
        for node in nodes.iter().filter(is_feasible) {
            let labels = labels(node.metadata.as_ref());
            for report in &mut self.reports {
                let value = labels.get(&report.constraint.spec.topology_key);
                if let Some(domain) = value.and_then(|value| report.domains.get_mut(value)) {
                    domain.feasible += 1;
                }
            }
        }
        self
    }
}
