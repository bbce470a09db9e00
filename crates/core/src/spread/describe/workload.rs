//! Workloads, which are groups of pods that belong together: their ids, and their pods with the
//! constraints in force for them.

use std::collections::{BTreeMap, HashMap};

use crate::matching::Selector;
use crate::matching::revisions::TEMPLATE_HASHES;
use crate::proto::v1;
use crate::snapshot::{Adopter, PodGroup, PodGroupId, Query, partition};
use crate::spread::Active;

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
    /// Returns the workload that a pod belongs to. `adopter` is the controller that would adopt the
    /// pod if it had none. Pods of a replica set that a deployment or a Rollout owns belong to that.
    /// Such a replica set is recognised by its name, which ends in the hash that its pods have as a
    /// label.
    pub fn of(pod: &v1::Pod, adopter: Option<Adopter<'_>>) -> Self {
        let none = v1::ObjectMeta::default();
        let metadata = pod.metadata.as_ref().unwrap_or(&none);
        let Some((kind, name)) = direct_controller(metadata, adopter) else {
            let mut labels = metadata.labels.clone();
            labels.retain(|key, _| !OF_THE_NODE.contains(&&**key));
            return Self {
                labels,
                ..Self::default()
            };
        };
        let owner = TEMPLATE_HASHES.iter().find_map(|(label, owner)| {
            let hash = metadata.labels.get(*label)?;
            let name = name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
            (kind == "ReplicaSet" && !name.is_empty()).then_some((*owner, name))
        });
        let (kind, name) = owner.unwrap_or((kind, name));
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            labels: BTreeMap::new(),
        }
    }

    /// Returns whether the workload has no controller.
    pub fn is_bare(&self) -> bool {
        self.kind.is_empty()
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

/// The kind and name of a pod's direct controller: the one that it names, else the one that would
/// adopt it. Of a deployment's pods this is a replica set.
fn direct_controller<'m>(
    metadata: &'m v1::ObjectMeta,
    adopter: Option<Adopter<'m>>,
) -> Option<(&'m str, &'m str)> {
    let named = controller(metadata).map(|owner| (&*owner.kind, &*owner.name));
    named.or_else(|| adopter.map(|adopter| (adopter.kind, adopter.name)))
}

/// Returns whether the pod's direct controller has this kind and name. Of a deployment's pods this
/// is a replica set.
pub fn is_controlled_by(
    pod: &v1::Pod,
    adopter: Option<Adopter<'_>>,
    kind: &str,
    name: &str,
) -> bool {
    let metadata = pod.metadata.as_ref();
    let direct = metadata.and_then(|metadata| direct_controller(metadata, adopter));
    direct == Some((kind, name))
}

/// The number of a stateful set's pod, by its name; `None` if it has none.
pub fn ordinal_of(stateful_set: &str, pod: &str) -> Option<u32> {
    let number = pod.strip_prefix(stateful_set)?.strip_prefix('-')?;
    let is_plain = number == "0" || !number.starts_with(['0', '+']);
    number.parse().ok().filter(|_| is_plain)
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

/// A workload that a question names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedWorkload {
    /// The kind of the pods' controller.
    pub kind: String,
    /// The name of the controller.
    pub name: String,
    /// The workload's selector, if it is known. It finds pods without a controller where no pod
    /// belongs to the workload.
    pub selector: Option<Selector>,
}

impl NamedWorkload {
    /// The number of a pod, if the workload numbers its pods.
    pub fn ordinal_of(&self, pod: &str) -> Option<u32> {
        let is_numbered = self.kind == "StatefulSet";
        ordinal_of(&self.name, pod).filter(|_| is_numbered)
    }
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
    /// The number of pods that name no controller and were found by a selector.
    pub selected: usize,
}

/// A constraint in force for pods of a workload.
pub struct WantedSpread<'s> {
    /// The constraint.
    pub active: Active,
    /// The domains over which existing pods should be even by the constraint.
    pub partition: partition::Key,
    /// The pods that have the constraint.
    pub(super) groups: HashMap<PodGroupId, &'s PodGroup>,
}

impl WantedSpread<'_> {
    /// Returns whether the pods of a group have the constraint.
    pub fn is_of(&self, group: PodGroupId) -> bool {
        self.groups.contains_key(&group)
    }

    /// Returns the query by which a snapshot counts existing pods for the constraint.
    pub fn query(&self) -> Query<'_> {
        Query {
            selector: self.active.counted(),
            partition: &self.partition,
        }
    }
}
