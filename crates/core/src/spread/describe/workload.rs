//! Workloads, which are groups of pods that belong together: their ids, their pods with the constraints
//! in force for them, the rule that keeps them even, and their balance over the domains of each topology
//! key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::matching::Selector;
use crate::matching::revisions::TEMPLATE_HASHES;
use crate::proto::{count, v1};
use crate::snapshot::owners::Adopter;
use crate::snapshot::pod_groups::PodGroupId;
use crate::snapshot::{DomainCount, DomainCounts, PodGroup, Query, partition};
use crate::spread::{Active, GlobalMinimum};

/// Labels that the API server copies from a node to the pods that are bound to it, since Kubernetes
/// 1.35. They say where a pod is, not to which workload it belongs.
pub const OF_THE_NODE: [&str; 2] = [
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
    /// pod if it had none.
    pub fn of(pod: &v1::Pod, adopter: Option<Adopter<'_>>) -> Self {
        let none = v1::ObjectMeta::default();
        let metadata = pod.metadata.as_ref().unwrap_or(&none);
        let Some((kind, name)) = Self::controller(metadata, adopter) else {
            let mut labels = metadata.labels.clone();
            labels.retain(|key, _| !OF_THE_NODE.contains(&&**key));
            return Self {
                labels,
                ..Self::default()
            };
        };
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            labels: BTreeMap::new(),
        }
    }

    /// Returns the kind and name of the controller of a pod's workload, if it has one. Pods of a
    /// replica set that a deployment or a Rollout owns belong to that. Such a replica set is
    /// recognised by its name, which ends in the hash that its pods have as a label.
    pub fn controller<'m>(
        metadata: &'m v1::ObjectMeta,
        adopter: Option<Adopter<'m>>,
    ) -> Option<(&'m str, &'m str)> {
        let (kind, name) = direct_controller(metadata, adopter)?;
        let owner = TEMPLATE_HASHES.iter().find_map(|(label, owner)| {
            let hash = metadata.labels.get(*label)?;
            let name = name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
            (kind == "ReplicaSet" && !name.is_empty()).then_some((*owner, name))
        });
        owner.or(Some((kind, name)))
    }

    /// The kind and name of the controller, for the wire.
    pub fn to_wire(&self) -> v1::WorkloadName {
        v1::WorkloadName {
            kind: self.kind.clone(),
            name: self.name.clone(),
            selector: None,
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
pub(super) fn direct_controller<'m>(
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
    /// The id of the workload.
    pub(super) fn id(&self) -> WorkloadId {
        WorkloadId {
            kind: self.kind.clone(),
            name: self.name.clone(),
            labels: BTreeMap::new(),
        }
    }

    /// The number of a pod, if the workload numbers its pods.
    pub fn ordinal_of(&self, pod: &str) -> Option<u32> {
        let pod = Some(pod).filter(|_| self.kind == "StatefulSet")?;
        let number = pod.strip_prefix(&*self.name)?.strip_prefix('-')?;
        let is_plain = number == "0" || !number.starts_with(['0', '+']);
        number.parse().ok().filter(|_| is_plain)
    }
}

/// The pods of a workload, and the constraints in force for them.
pub struct WorkloadPods<'s> {
    /// Groups of alike pods of the workload.
    pub groups: Vec<&'s PodGroup>,
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

/// The spread of pods over the domains of one topology key.
#[derive(Debug, Clone)]
pub struct Balance {
    /// The constraint; `None` when the question is about a key.
    pub constraint: Option<Active>,
    /// The numbers. [`Self::into_wire`] adds what is known of the constraint.
    pub numbers: v1::TopologySpread,
}

impl Balance {
    /// The balance of counts, listing at most `max_domains` of the domains.
    pub fn of(
        counted: &DomainCounts<'_>,
        topology_key: &str,
        constraint: Option<&Active>,
        outside_pods: usize,
        max_domains: usize,
    ) -> Self {
        let domain_count = counted.domain_count();
        let wanted = constraint.map(|active| &active.constraint);
        let minimum = GlobalMinimum::of(wanted, domain_count, counted.smallest());
        let mut shares: Vec<_> = counted.domains().map(|id| counted.domain(id)).collect();
        let largest = shares.iter().map(|share| share.matching_pods).max();
        shares.sort_unstable_by_key(|share| (Reverse(share.matching_pods), share.value));
        shares.truncate(max_domains);
        let share = |share: DomainCount<'_>| v1::DomainSpread {
            value: share.value.to_owned(),
            matching_pods: share.matching_pods,
            skew: share.matching_pods.saturating_sub(minimum.pods),
            eligible_nodes: share.eligible_nodes,
        };
        Self {
            constraint: constraint.cloned(),
            numbers: v1::TopologySpread {
                topology_key: topology_key.to_owned(),
                domain_count: count(domain_count),
                global_minimum: minimum.pods,
                min_domains_unmet: minimum.min_domains_unmet,
                skew: largest.map_or(0, |largest| largest - minimum.pods),
                outside_pods: count(outside_pods),
                domains: shares.into_iter().map(share).collect(),
                ..Default::default()
            },
        }
    }

    /// The balance for the wire.
    pub fn into_wire(self) -> v1::TopologySpread {
        let active = self.constraint.as_ref();
        v1::TopologySpread {
            constraint: active.map(Active::to_wire),
            constraint_index: active.map_or(0, |active| active.wire_index()),
            from_defaults: active.is_some_and(|active| active.from_defaults),
            excess: self.excess(),
            effect: self.effect().unwrap_or_default().to_owned(),
            ..self.numbers
        }
    }

    /// The amount by which the skew exceeds max skew, at least 0; 0 where each pod counts its own node
    /// only.
    pub fn excess(&self) -> i64 {
        let constraint = self.constraint.as_ref();
        let max_skew = constraint.filter(|it| !it.counts_own_node);
        let max_skew = max_skew.map(|active| active.constraint.max_skew);
        max_skew.map_or(0, |max| (self.numbers.skew - i64::from(max)).max(0))
    }

    /// What a hard constraint does that refuses no node whatever is counted; `None` if it can refuse
    /// one.
    pub fn effect(&self) -> Option<&'static str> {
        let active = self.constraint.as_ref().filter(|_| self.is_hard())?;
        if active.counts_own_node {
            return Some(
                "none: each pod counts the node that it is tied to, so the constraint does nothing; \
                 nodeAffinityPolicy: Ignore would do",
            );
        }
        let wants_more = active.constraint.min_domains.unwrap_or(1) > 1;
        (self.numbers.domain_count == 1 && !wants_more).then_some(
            "none: with one domain it refuses no node; minDomains: 2, another key, or Ignore as the \
             policy that leaves other nodes out would",
        )
    }

    /// Returns whether the balance belongs to a hard constraint.
    pub fn is_hard(&self) -> bool {
        let constraint = self.constraint.as_ref();
        constraint.is_some_and(|active| active.constraint.is_hard())
    }
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
    /// The number of these pods that name no controller and were found by a selector.
    pub selected: usize,
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
