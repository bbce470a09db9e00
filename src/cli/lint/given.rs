//! Labels that controllers add to the pods of a template.

/// The keys of labels that some controller adds.
const ALL: [&str; 10] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    "pod-template-hash",
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
        "Deployment" | "ReplicaSet" => key == "pod-template-hash",
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
        _ => is_given(key),
    }
}
