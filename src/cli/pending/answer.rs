//! The answer of `evenkeel explain --pending`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::proto::v1::ExplainResponse;

/// The pods of a snapshot that wait for a node.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingPods {
    /// The number of pending pods.
    pub(crate) pod_count: usize,
    /// The number of these pods that no node can take.
    pub(crate) stuck_count: usize,
    /// The number of these pods for which the cluster's own scheduler reports that it found no
    /// node.
    pub(crate) unschedulable_count: usize,
    /// The workloads of the pods. Those with the most pods that no node can take come first, then
    /// those with the fewest nodes for a pod, then those with the most pods, then by name.
    pub(crate) workloads: Vec<PendingWorkload>,
}

/// The pending pods of one workload.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingWorkload {
    /// Namespace.
    pub(crate) namespace: String,
    /// Kind of the controller; empty without one.
    pub(crate) kind: String,
    /// The controller's name; empty without one.
    pub(crate) name: String,
    /// The labels of pods without a controller.
    pub(crate) labels: BTreeMap<String, String>,
    /// Names of the pods.
    pub(crate) pods: Vec<String>,
    /// The number of these pods that no node can take.
    pub(crate) stuck_count: usize,
    /// The number of these pods for which the cluster's own scheduler reports that it found no
    /// node.
    pub(crate) unschedulable_count: usize,
    /// The scheduler's message about the explained pod, or another; empty if there is none, or it
    /// is unknown.
    pub(crate) scheduler_message: String,
    /// The scheduler that the pods name; empty if this is the default scheduler.
    pub(crate) scheduler_name: String,
    /// The pod that is explained, which has the fewest feasible nodes.
    pub(crate) explained_pod: String,
    /// The explanation of that pod.
    pub(crate) explanation: ExplainResponse,
}
