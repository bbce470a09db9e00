//! The labels by which controllers tell the pods of their revisions apart.

use std::collections::BTreeMap;

/// The label of the pods of a Deployment's ReplicaSets.
pub const DEPLOYMENT_HASH: &str = "pod-template-hash";

/// The label of the pods of a Rollout's ReplicaSets.
pub const ROLLOUT_HASH: &str = "rollouts-pod-template-hash";

/// The kind of OpenKruise's workloads, whose controller tells pods of the newest revision from all
/// others.
pub const CLONE_SET: &str = "CloneSet";

/// The label of the pods of a StatefulSet, DaemonSet or CloneSet.
pub const CONTROLLER_REVISION: &str = "controller-revision-hash";

/// The labels of the pods of ReplicaSets whose revisions run beside each other in a rollout, each with
/// the kind of the workload that owns the ReplicaSets.
pub const TEMPLATE_HASHES: [(&str, &str); 2] =
    [(DEPLOYMENT_HASH, "Deployment"), (ROLLOUT_HASH, "Rollout")];

/// Returns whether a label tells revisions of a workload apart.
pub fn is_revision_label(key: &str) -> bool {
    key == CONTROLLER_REVISION || TEMPLATE_HASHES.iter().any(|(label, _)| *label == key)
}

/// Returns whether workloads of a kind have a ReplicaSet for each template that they had.
pub fn has_replica_sets(kind: &str) -> bool {
    TEMPLATE_HASHES.iter().any(|(_, of)| *of == kind)
}

/// Returns whether workloads of a kind are scaled down by their revisions, each to its own number of
/// pods.
pub fn is_scaled_by_revisions(kind: &str) -> bool {
    has_replica_sets(kind) || kind == CLONE_SET
}

/// The label by which a controller of this kind tells revisions apart that run beside each other in a
/// rollout.
pub fn template_hash_label(kind: &str) -> Option<&'static str> {
    let owner = match kind {
        "ReplicaSet" => "Deployment",
        kind => kind,
    };
    let mut all = TEMPLATE_HASHES.iter();
    all.find(|(_, of)| *of == owner).map(|(label, _)| *label)
}

/// The label of a pod's revision, with its value: that of a Rollout, else of a Deployment.
pub fn template_hash(labels: &BTreeMap<String, String>) -> Option<(&'static str, &str)> {
    let mut all = TEMPLATE_HASHES.iter().rev();
    all.find_map(|(label, _)| Some((*label, labels.get(*label)?.as_str())))
}
