//! How a workload is spread, and what holds it even.

use super::balance::Balance;
use super::workload::WorkloadId;

/// What holds a workload even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadStanding {
    /// Constraints of its own.
    Constrained,
    /// Default constraints.
    Defaulted,
    /// Nothing, although it has several pods.
    Unconstrained(Concentration),
    /// Nothing, and it has a single pod.
    Single,
    /// Nothing could: each of its pods may run on one node only, as those of
    /// daemon sets and static pods.
    Fixed,
    /// It is not known: the spec of its pods is invalid.
    Faulty,
}

/// Whether the pods of a workload are all in one place, though there are others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concentration {
    /// In one of several zones that it may run in.
    pub in_one_zone: bool,
    /// On one of several nodes.
    pub on_one_node: bool,
}

/// How a workload is spread.
#[derive(Debug, Clone)]
pub struct JudgedWorkload {
    /// The workload.
    pub workload: WorkloadId,
    /// Its pods, without terminating and finished ones.
    pub pods: usize,
    /// How many of these are on no node yet.
    pub pending: usize,
    /// What holds it even; `None` when it is judged by a key.
    pub standing: Option<SpreadStanding>,
    /// One for each distinct constraint in force, or for the key. Pods of two
    /// revisions may have different constraints.
    pub balances: Vec<Balance>,
    /// Why some of its pods could not be judged: their spec is invalid.
    pub fault: Option<String>,
}

impl JudgedWorkload {
    /// Returns whether it has a place among others by how evenly it is spread: static
    /// pods and single ones could not be spread otherwise.
    pub fn is_ranked(&self) -> bool {
        self.pods > 1 && !self.workload.is_static()
    }
}
