//! The options of a plan that moves pods.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::Limits;
use crate::matching::Selector;
use crate::snapshot::{PodGroups, Stopped};
use crate::spread::describe::{NamedWorkload, Survey, WorkloadId, WorkloadPods, selects};

/// The pods that stay, by namespace and name, each with the reason.
pub type StayingPods = HashMap<String, HashMap<String, String>>;

/// The options of a plan that moves pods.
#[derive(Debug, Clone)]
pub struct RebalanceOptions {
    /// The namespace; `None` means all.
    pub namespace: Option<String>,
    /// The workload; `None` means all.
    pub workload: Option<NamedWorkload>,
    /// Selects pods; only their workloads are repaired. `None` means all.
    pub selector: Option<Selector>,
    /// True if soft constraints are repaired too.
    pub soft: bool,
    /// The topology key over which workloads without constraints are made even.
    pub by: Option<Arc<str>>,
    /// The largest number of moves.
    pub most_moves: usize,
    /// The largest number of moves for each workload.
    pub most_of_workload: usize,
    /// The largest number of moves out of each node.
    pub most_of_node: usize,
    /// The number of pods of a workload without a budget that may be unavailable.
    pub max_unavailable: i32,
    /// True if pods without a controller may be moved.
    pub moves_bare: bool,
    /// Selects pods that stay.
    pub keeps: Option<Selector>,
    /// The pods that stay by name.
    pub stay: StayingPods,
    /// The number of domains to list.
    pub max_domains: usize,
    /// The limits for pods.
    pub limits: Limits,
}

impl RebalanceOptions {
    /// The workloads of a namespace.
    pub fn survey<'s, 'a>(
        &'s self,
        pods: &'s PodGroups<'a>,
        namespace: &str,
    ) -> Result<Survey<'s, 'a>, Stopped> {
        let named = self.workload.as_ref();
        Survey::of(pods, namespace, &self.limits, self.max_domains, named)
    }

    /// Returns whether a workload is to be repaired.
    pub(super) fn means(&self, namespace: &str, id: &WorkloadId, pods: &WorkloadPods<'_>) -> bool {
        let mut groups = pods.groups.iter();
        self.namespace.as_ref().is_none_or(|it| *it == *namespace)
            && self
                .workload
                .as_ref()
                .is_none_or(|named| id.kind == named.kind && id.name == named.name)
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| groups.any(|(_, pod)| selects(selector, pod)))
    }
}
