//! The state of a cluster, as plain lists of wire objects.

use evenkeel::proto::v1::{
    DefaultConstraints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet, StorageClass,
    Toleration,
};
use serde::Deserialize;

/// The objects and the settings of a cluster.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cluster {
    /// Nodes, in any order.
    pub nodes: Vec<Node>,
    /// Pods of all namespaces.
    pub pods: Vec<Pod>,
    /// Services of all namespaces.
    pub services: Vec<Service>,
    /// Replica sets of all namespaces.
    pub replica_sets: Vec<ReplicaSet>,
    /// Stateful sets of all namespaces.
    pub stateful_sets: Vec<StatefulSet>,
    /// Replication controllers of all namespaces.
    pub replication_controllers: Vec<ReplicationController>,
    /// Namespaces that have an object.
    pub namespaces: Vec<Namespace>,
    /// Pod disruption budgets of all namespaces.
    pub pod_disruption_budgets: Vec<PodDisruptionBudget>,
    /// Claims of all namespaces.
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    /// Persistent volumes.
    pub persistent_volumes: Vec<PersistentVolume>,
    /// Storage classes.
    pub storage_classes: Vec<StorageClass>,
    /// Constraints for pods that have none of their own.
    #[serde(skip)]
    pub defaults: DefaultConstraints,
    /// The version of Kubernetes, such as `1.37`; empty means the newest.
    #[serde(skip)]
    pub kubernetes_version: String,
    /// True if tolerations with `Gt` and `Lt` compare numbers.
    #[serde(skip)]
    pub toleration_comparisons: bool,
}

impl Cluster {
    /// A pod with only the tolerations that count.
    pub(super) fn as_read(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        if let Some(spec) = pod.spec.as_mut().filter(|_| !self.toleration_comparisons) {
            let compares = |it: &Toleration| ["Gt", "Lt"].contains(&&*it.operator);
            spec.tolerations.retain(|it| !compares(it));
        }
        pod
    }

    /// The minor version of Kubernetes.
    pub(super) fn minor(&self) -> u32 {
        let minor = self.kubernetes_version.split('.').nth(1);
        minor.map_or(u32::MAX, |minor| minor.parse().expect("a minor version"))
    }
}

/// An empty cluster, like a new snapshot: with Kubernetes' own default constraints.
impl Default for Cluster {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            pods: Vec::new(),
            services: Vec::new(),
            replica_sets: Vec::new(),
            stateful_sets: Vec::new(),
            replication_controllers: Vec::new(),
            namespaces: Vec::new(),
            pod_disruption_budgets: Vec::new(),
            persistent_volume_claims: Vec::new(),
            persistent_volumes: Vec::new(),
            storage_classes: Vec::new(),
            defaults: DefaultConstraints {
                constraints: Vec::new(),
                system: true,
            },
            kubernetes_version: String::new(),
            toleration_comparisons: false,
        }
    }
}
