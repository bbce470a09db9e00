//! Labels that controllers add to the pods of a template.

/// The label by which a Deployment tells its revisions apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The label by which a Rollout of Argo tells its revisions apart.
const ROLLOUT_HASH: &str = "rollouts-pod-template-hash";

/// The keys of labels that controllers of Kubernetes and some others add.
const ALL: [&str; 11] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    ROLLOUT_HASH,
    TEMPLATE_HASH,
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
        "Deployment" | "ReplicaSet" | "Rollout" => revision_label(kind) == Some(key),
        "StatefulSet" => {
            let of_pod = [
                "apps.kubernetes.io/pod-index",
                "statefulset.kubernetes.io/pod-name",
            ];
            key == "controller-revision-hash" || of_pod.contains(&key)
        }
        "DaemonSet" => ["controller-revision-hash", "pod-template-generation"].contains(&key),
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

/// The label by which the controller of this kind tells pods of different revisions apart, which run
/// beside each other in a rollout.
pub(super) fn revision_label(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "ReplicaSet" => Some(TEMPLATE_HASH),
        "Rollout" => Some(ROLLOUT_HASH),
        _ => None,
    }
}
