//! Objects without the fields that are never used, before their kind is known.

use serde_json::Value;

use evenkeel_core::matching::storage;

/// Fields that no decision reads but that make up most bytes of a cluster. They are dropped
/// if their value is a list or a map. Plain values are kept, because a label may have any
/// of these names.
const BULKY: [&str; 15] = [
    "args",
    "command",
    "data",
    "env",
    "envFrom",
    "images",
    "lastState",
    "lifecycle",
    "livenessProbe",
    "managedFields",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "state",
    "volumesAttached",
];

/// The annotations that are kept: those that the controllers of ReplicaSets, Deployments and Rollouts read,
/// those that keep a pod where it is, and those of claims and volumes.
const KEPT_ANNOTATIONS: [&str; 11] = [
    DELETION_COST,
    MAX_REPLICAS,
    SCALE_DOWN_DEADLINE,
    ROLLOUT_REVISION,
    STAYING[0].0,
    STAYING[1].0,
    STAYING[2].0,
    SCALE_DOWN_DISABLED,
    storage::BIND_COMPLETED,
    storage::SELECTED_NODE,
    storage::BETA_CLASS,
];

/// The annotation with the cost of deleting a pod.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The annotation that keeps a node from going; so does [`DO_NOT_DISRUPT`].
pub(super) const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// The annotation that says whether a pod may be evicted.
pub(super) const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The annotation that keeps pods and nodes where they are.
pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// The annotation of a ReplicaSet with the most pods that its Deployment might have.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The annotation of a ReplicaSet that its Rollout keeps until this time.
pub(super) const SCALE_DOWN_DEADLINE: &str = "scale-down-deadline";

/// The annotation of a ReplicaSet with the number of its Rollout's revision.
pub(super) const ROLLOUT_REVISION: &str = "rollout.argoproj.io/revision";

/// The annotations that keep a pod where it is, each with its value; empty means any value.
pub(super) const STAYING: [(&str, &str); 3] = [
    (SAFE_TO_EVICT, "false"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""),
    (DO_NOT_DISRUPT, "true"),
];

/// Leaves out fields that are null, because Kubernetes takes them as unset, and unless all are wanted
/// those that are never used.
pub(super) fn prune(value: &mut Value, is_complete: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|it| prune(it, is_complete)),
        Value::Object(fields) => fields.retain(|key, value| {
            let is_bulky = BULKY.contains(&key.as_str()) && (value.is_object() || value.is_array());
            if is_bulky && !is_complete {
                return false;
            }
            if key == "annotations"
                && !is_complete
                && let Value::Object(annotations) = value
            {
                annotations.retain(|key, _| KEPT_ANNOTATIONS.contains(&key.as_str()));
                return !annotations.is_empty();
            }
            prune(value, is_complete);
            !value.is_null()
        }),
        _ => {}
    }
}
