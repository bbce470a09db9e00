//! What the judge answers.

use std::collections::BTreeMap;

use super::constraints::ResolvedConstraint;
use crate::proto::v1::Code;

/// The answer about one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecount {
    /// Name of the node.
    pub node: String,
    /// Absent when the node is feasible.
    pub refusal: Option<Rejection>,
}

/// Why a node is not feasible.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// How final it is.
    pub code: Code,
    /// Kubernetes' words for it: one reason, but each thing that there is too
    /// little of.
    pub reasons: Vec<String>,
    /// Index of the constraint; -1 when no spread constraint decided.
    pub constraint_index: i32,
    /// Pods that the constraint counts in the node's domain.
    pub matching_pods: i64,
    /// Skew of that domain if the pod went there.
    pub skew: i64,
    /// How many pods that are nominated to the node alone keep the pod off it.
    pub nominated_pods: i64,
}

impl Rejection {
    /// One that no spread constraint decided.
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
    /// 1 when it counts the incoming pod itself, else 0.
    pub self_match: i64,
    /// The global minimum.
    pub minimum: i64,
    /// What it counts, by value of the topology key.
    pub domains: BTreeMap<String, DomainRecount>,
    /// How many domains there are; in Score, the size behind the weight.
    pub size: i64,
    /// Weight of a count in Score; 0 in Filter.
    pub weight: f64,
}

/// What a constraint counts in one domain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DomainRecount {
    /// Matching pods on its nodes.
    pub matching_pods: i64,
    /// Eligible nodes; in Score, scored candidates.
    pub nodes: i64,
}

/// What Filter answers.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterRecount {
    /// One per node that was judged, in order.
    pub verdicts: Vec<NodeRecount>,
    /// One per hard constraint, in order.
    pub reports: Vec<ConstraintRecount>,
}

/// What Score answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRecount {
    /// Whether there was nothing to score by.
    pub skipped: bool,
    /// One per candidate, in order.
    pub scores: Vec<ScoredNode>,
    /// One per soft constraint, in order; none when skipped.
    pub reports: Vec<ConstraintRecount>,
}

/// How good one node is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoredNode {
    /// Name of the node.
    pub node: String,
    /// The sum before it was brought to 0..100; lower is better.
    pub raw: i64,
    /// 0 to 100, higher is better.
    pub score: i64,
    /// Whether it was ignored because it lacks a topology key.
    pub ignored: bool,
}

impl FilterRecount {
    /// Names of the feasible nodes.
    pub fn feasible(&self) -> Vec<String> {
        let passed = self.verdicts.iter().filter(|v| v.refusal.is_none());
        passed.map(|v| v.node.clone()).collect()
    }
}
