//! The spread of a workload, and the rule that keeps it even.

use super::balance::Balance;
use super::workload::WorkloadId;

/// The rule that keeps a workload even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadStanding {
    /// The workload has its own constraints.
    Constrained,
    /// Default constraints apply.
    Defaulted,
    /// No rule applies, although the workload has several pods.
    Unconstrained(Concentration),
    /// No rule applies, and the workload has a single pod.
    Single,
    /// No rule can have an effect, because each pod may run on only one node, like the pods of
    /// daemon sets and static pods.
    Fixed,
    /// The rule is unknown, because the spec of the pods is invalid.
    Faulty,
}

/// Says if the pods of a workload are all in one place, although they may run in several.
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
    /// The number of the workload's pods, without terminating and finished pods.
    pub pods: usize,
    /// The number of these pods that are not on a node yet.
    pub pending: usize,
    /// The rule that keeps the workload even; `None` when it is judged by a key.
    pub standing: Option<SpreadStanding>,
    /// The balance of each distinct constraint in force, or of the key. Pods of two revisions may
    /// have different constraints.
    pub balances: Vec<Balance>,
    /// The fault in the spec of some of the pods, which are not judged.
    pub fault: Option<String>,
}

impl JudgedWorkload {
    /// Returns whether the workload is ranked by its spread. Static pods and single pods are not,
    /// because they cannot be spread in another way.
    pub fn is_ranked(&self) -> bool {
        self.pods > 1 && !self.workload.is_static()
    }
}
