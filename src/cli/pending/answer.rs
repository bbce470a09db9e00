//! The answer of `evenkeel explain --pending`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::proto::v1::ExplainResponse;

/// The pods of a snapshot that wait for a node.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingPods {
    /// How many there are.
    pub(crate) pod_count: usize,
    /// How many of them no node can take.
    pub(crate) stuck_count: usize,
    /// For how many of them the cluster's own scheduler says that it found no node.
    pub(crate) unschedulable_count: usize,
    /// Their workloads: most pods that no node can take first, then fewest
    /// nodes that one could go to, then most pods, then by name.
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
    /// Its name; empty without one.
    pub(crate) name: String,
    /// The labels of pods without a controller.
    pub(crate) labels: BTreeMap<String, String>,
    /// Names of the pods.
    pub(crate) pods: Vec<String>,
    /// How many of them no node can take.
    pub(crate) stuck_count: usize,
    /// For how many of them the cluster's own scheduler says that it found no node.
    pub(crate) unschedulable_count: usize,
    /// What that says of the pod that is explained, or of another; empty when it
    /// says nothing, or is not known.
    pub(crate) scheduler_message: String,
    /// The scheduler that they name, if that is not the default one; else empty.
    pub(crate) scheduler_name: String,
    /// The pod that is explained: the one with the fewest nodes to go to.
    pub(crate) explained_pod: String,
    /// Why it may run where it may.
    pub(crate) explanation: ExplainResponse,
}
