//! What to repair by moving pods, and how.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::Limits;
use crate::matching::Selector;
use crate::spread::describe::{WorkloadId, WorkloadPods};

/// The pods that stay by name, and why: by namespace.
pub type StayingPods = HashMap<String, HashMap<String, String>>;

/// The constraints to repair, and how.
#[derive(Debug, Clone)]
pub struct RebalanceOptions {
    /// The namespace; `None` means all.
    pub namespace: Option<String>,
    /// The kind and name of the workload; `None` means all.
    pub workload: Option<(String, String)>,
    /// The workloads of these pods; `None` means all.
    pub selector: Option<Selector>,
    /// True if soft constraints are repaired too.
    pub soft: bool,
    /// The topology key over which workloads without constraints are made even.
    pub by: Option<Arc<str>>,
    /// The largest number of moves.
    pub most_moves: usize,
    /// The largest number of moves of a workload.
    pub most_of_workload: usize,
    /// The largest number of moves out of a node.
    pub most_of_node: usize,
    /// The number of pods that may be unavailable of a workload without a budget.
    pub max_unavailable: i32,
    /// True if pods without a controller are moved.
    pub moves_bare: bool,
    /// The pods that stay.
    pub keeps: Option<Selector>,
    /// The pods that stay by name.
    pub stay: StayingPods,
    /// The number of domains to list.
    pub max_domains: usize,
    /// Limits of pods.
    pub limits: Limits,
}

impl RebalanceOptions {
    /// Returns whether a workload is to be repaired.
    pub(super) fn means(&self, namespace: &str, id: &WorkloadId, pods: &WorkloadPods<'_>) -> bool {
        let mut groups = pods.groups.iter();
        self.namespace.as_ref().is_none_or(|it| *it == *namespace)
            && self
                .workload
                .as_ref()
                .is_none_or(|(kind, name)| id.kind == *kind && id.name == *name)
            && self.selector.as_ref().is_none_or(|selector| {
                groups.any(|(_, pod)| {
                    let metadata = pod.metadata.as_ref();
                    metadata.is_some_and(|metadata| selector.matches_labels(&metadata.labels))
                })
            })
    }
}
