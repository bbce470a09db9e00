//! Labels that controllers add to the pods of a template.

use crate::matching::revisions::{
    CONTROLLER_REVISION, DEPLOYMENT_HASH, ROLLOUT_HASH, template_hash_label,
};

/// The keys of labels that controllers of Kubernetes and some others add.
const ALL: [&str; 11] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    CONTROLLER_REVISION,
    "controller-uid",
    "job-name",
    "pod-template-generation",
    ROLLOUT_HASH,
    DEPLOYMENT_HASH,
    "statefulset.kubernetes.io/pod-name",
];

/// Returns whether some controller adds this label to pods.
pub(super) fn is_given(key: &str) -> bool {
    ALL.contains(&key)
}

/// Returns whether the controller of this kind adds the label. A controller of an unknown kind may
/// add any of them.
pub(super) fn is_given_by(kind: &str, key: &str) -> bool {
    match kind {
        "Deployment" | "ReplicaSet" | "Rollout" => template_hash_label(kind) == Some(key),
        "StatefulSet" => {
            let of_pod = [
                "apps.kubernetes.io/pod-index",
                "statefulset.kubernetes.io/pod-name",
            ];
            key == CONTROLLER_REVISION || of_pod.contains(&key)
        }
        "DaemonSet" => [CONTROLLER_REVISION, "pod-template-generation"].contains(&key),
        "Job" | "CronJob" => {
            let is_plain = ["controller-uid", "job-name"].contains(&key);
            is_plain || key.starts_with("batch.kubernetes.io/") && is_given(key)
        }
        "Pod" | "ReplicationController" => false,
        _ if kind.starts_with("VirtualMachine") => {
            let prefix = key.split('/').next().unwrap_or_default();
            prefix == "kubevirt.io" || prefix.ends_with(".kubevirt.io")
        }
        _ => is_given(key),
    }
}
