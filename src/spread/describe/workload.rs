//! Workloads, which are groups of pods that belong together: their ids, and their pods with the
//! constraints in force for them.

use std::collections::BTreeMap;

use crate::matching::Selector;
use crate::proto::v1;
use crate::snapshot::{PodGroup, Query, partition};
use crate::spread::Active;

/// The label by which a deployment marks the pods of a replica set.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Labels that the API server copies from a node to the pods that are bound to it, since Kubernetes
/// 1.35. They say where a pod is, not to which workload it belongs.
const OF_THE_NODE: [&str; 2] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The kind of the controller that the kubelet sets for static pods.
const STATIC: &str = "Node";

/// The id of a workload: the controller of its pods, or their labels if they have no controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadId {
    /// Kind of the controller; empty when there is none.
    pub kind: String,
    /// The name of the controller; empty when there is none.
    pub name: String,
    /// The labels of pods without a controller, except labels that say where the pods are.
    pub labels: BTreeMap<String, String>,
}

impl WorkloadId {
    /// Returns the workload that a pod belongs to. Pods of a deployment's replica set belong to the
    /// deployment. Such a replica set is recognised by its name, which ends in the hash that its
    /// pods have as a label.
    pub fn of(pod: &v1::Pod) -> Self {
        let none = v1::ObjectMeta::default();
        let metadata = pod.metadata.as_ref().unwrap_or(&none);
        let Some(controller) = controller(metadata) else {
            let mut labels = metadata.labels.clone();
            labels.retain(|key, _| !OF_THE_NODE.contains(&&**key));
            return Self {
                labels,
                ..Self::default()
            };
        };
        let hash = metadata.labels.get(TEMPLATE_HASH);
        let deployment = hash.and_then(|hash| {
            let name = controller.name.strip_suffix(hash.as_str())?;
            name.strip_suffix('-').filter(|name| !name.is_empty())
        });
        let (kind, name) = match deployment {
            Some(name) if controller.kind == "ReplicaSet" => ("Deployment", name),
            _ => (&*controller.kind, &*controller.name),
        };
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            labels: BTreeMap::new(),
        }
    }

    /// Returns whether the workload's pods are static: the kubelet of their node runs them, and no
    /// scheduler places them.
    pub fn is_static(&self) -> bool {
        self.kind == STATIC
    }
}

impl std::fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.kind.is_empty() {
            return write!(f, "{}/{}", self.kind, self.name);
        }
        f.write_str("no controller")
    }
}

/// Returns whether the pod's direct controller has this kind and name. Of a deployment's pods this
/// is a replica set.
pub fn is_controlled_by(pod: &v1::Pod, kind: &str, name: &str) -> bool {
    let controller = pod.metadata.as_ref().and_then(controller);
    controller.is_some_and(|owner| owner.kind == kind && owner.name == name)
}

/// Returns whether a selector matches the labels of a pod.
pub fn selects(selector: &Selector, pod: &v1::Pod) -> bool {
    let metadata = pod.metadata.as_ref();
    metadata.is_some_and(|metadata| selector.matches_labels(&metadata.labels))
}

/// The controller of a pod, if any.
pub fn controller(metadata: &v1::ObjectMeta) -> Option<&v1::OwnerReference> {
    let owners = &metadata.owner_references;
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The pods of a workload, and the constraints in force for them.
pub struct WorkloadPods<'s> {
    /// Groups of alike pods of the workload, each with one pod as an example.
    pub groups: Vec<(&'s PodGroup, &'s v1::Pod)>,
    /// The distinct constraints in force for the pods.
    pub wanted: Vec<WantedSpread<'s>>,
    /// The domains of the requested topology key, if there is no constraint.
    pub by_key: Option<partition::Key>,
    /// The fault in the spec of some of the pods, which are not judged.
    pub fault: Option<String>,
}

/// A constraint in force for pods of a workload.
pub struct WantedSpread<'s> {
    /// The constraint.
    pub active: Active,
    /// The domains over which existing pods should be even by the constraint.
    pub partition: partition::Key,
    /// The pods that have the constraint.
    pub(super) groups: Vec<&'s PodGroup>,
}

impl WantedSpread<'_> {
    /// Returns whether the pods of a group have the constraint.
    pub fn is_of(&self, group: &PodGroup) -> bool {
        self.groups.iter().any(|own| std::ptr::eq(*own, group))
    }

    /// Returns the query by which a snapshot counts existing pods for the constraint.
    pub fn query(&self) -> Query<'_> {
        Query {
            selector: self.active.counted(),
            partition: &self.partition,
        }
    }
}
