//! The spread of a workload, and the rule that keeps it even.

use super::balance::Balance;
use super::workload::WorkloadId;

/// The rule that keeps a workload even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadStanding {
    /// Constraints of the workload's own.
    Constrained,
    /// Default constraints.
    Defaulted,
    /// No rule, although it has several pods.
    Unconstrained(Concentration),
    /// No rule, and it has a single pod.
    Single,
    /// No rule could: each of its pods may run on only one node, like those of daemon sets and
    /// static pods.
    Fixed,
    /// Unknown: the spec of its pods is invalid.
    Faulty,
}

/// Tells whether the pods of a workload are all in one place, although it may use several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concentration {
    /// True if all are in one of several zones that the workload may run in.
    pub in_one_zone: bool,
    /// True if all are on one of several nodes.
    pub on_one_node: bool,
}

/// A workload with its spread.
#[derive(Debug, Clone)]
pub struct JudgedWorkload {
    /// The workload.
    pub workload: WorkloadId,
    /// The number of its pods, without terminating and finished ones.
    pub pods: usize,
    /// The number of these that are not on a node yet.
    pub pending: usize,
    /// The rule that keeps the workload even; `None` when it is judged by a key.
    pub standing: Option<SpreadStanding>,
    /// The balance of each distinct constraint in force, or of the key. Pods of two revisions may
    /// have different constraints.
    pub balances: Vec<Balance>,
    /// The reason why some of its pods could not be judged: their spec is invalid.
    pub fault: Option<String>,
}

impl JudgedWorkload {
    /// Returns whether the workload is ranked by its spread. Static pods and single ones are not,
    /// because they could not be spread otherwise.
    pub fn is_ranked(&self) -> bool {
        self.pods > 1 && !self.workload.is_static()
    }
}
