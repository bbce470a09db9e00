//! What a pod asks for that decides where it can run and that nobody here
//! checks (`docs/semantics.md`, "Node checks").

use crate::proto::v1;

/// The fields of a pod that no snapshot holds anything to check by, ascending.
pub fn fields(pod: &v1::Pod) -> Box<[&'static str]> {
    let (no_spec, no_status) = (v1::PodSpec::default(), v1::PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let has_inline = |volume: &v1::Volume| volume.source().csi.is_some();
    let is_deferred = |condition: &v1::PodCondition| {
        condition.r#type == "PodResizePending" && condition.reason == "Deferred"
    };
    let all = [
        ("spec.resourceClaims", !spec.resource_claims.is_empty()),
        ("spec.volumes", spec.volumes.iter().any(has_inline)),
        (
            "status.conditions.PodResizePending",
            status.conditions.iter().any(is_deferred),
        ),
    ];
    let used = all.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(field, _)| field).collect()
}
