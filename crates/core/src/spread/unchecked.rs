//! The fields of a pod that affect where it can run, or where it runs best, but that are neither
//! checked nor scored (`docs/semantics.md`, "Node checks" and "Score").

use crate::proto::v1;

/// The used fields of a pod that no snapshot has data to check, ascending.
pub fn fields(pod: &v1::Pod) -> Box<[&'static str]> {
    let (no_spec, no_status) = (v1::PodSpec::default(), v1::PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let has_inline = |volume: &v1::Volume| volume.source().csi.is_some();
    let is_deferred = |condition: &v1::PodCondition| {
        condition.r#type == "PodResizePending" && condition.reason == "Deferred"
    };
    those_used([
        ("spec.resourceClaims", !spec.resource_claims.is_empty()),
        ("spec.volumes", spec.volumes.iter().any(has_inline)),
        (
            "status.conditions.PodResizePending",
            status.conditions.iter().any(is_deferred),
        ),
    ])
}

/// The fields of a pod with preferred terms about other pods, ascending.
pub fn preferred(spec: &v1::PodSpec) -> Box<[&'static str]> {
    let affinity = spec.affinity.as_ref();
    let prefers = |rules: Option<&v1::PodAffinity>| {
        rules.is_some_and(|it| {
            !it.preferred_during_scheduling_ignored_during_execution
                .is_empty()
        })
    };
    let near = affinity.and_then(|it| it.pod_affinity.as_ref());
    let apart = affinity.and_then(|it| it.pod_anti_affinity.as_ref());
    those_used([
        (
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            prefers(near),
        ),
        (
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            prefers(apart),
        ),
    ])
}

/// The used fields, of fields that each come with a flag that is true if it is used.
pub fn those_used<const N: usize>(fields: [(&'static str, bool); N]) -> Box<[&'static str]> {
    let used = fields.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(field, _)| field).collect()
}
