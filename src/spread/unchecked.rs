//! What a pod asks for that decides where it can run and that nobody here
//! checks (`docs/semantics.md`, "Node checks").

use crate::proto::v1;

/// The fields of a pod that no snapshot holds anything to check by, ascending.
pub fn fields(spec: &v1::PodSpec) -> Box<[&'static str]> {
    let affinity = spec.affinity.as_ref();
    let requires = |rules: Option<&v1::PodAffinity>| {
        rules.is_some_and(|r| {
            !r.required_during_scheduling_ignored_during_execution
                .is_empty()
        })
    };
    let is_claimed = |volume: &v1::Volume| {
        let source = volume.volume_source.as_ref();
        source.is_some_and(|s| {
            s.persistent_volume_claim.is_some() || s.csi.is_some() || s.ephemeral.is_some()
        })
    };
    let all = [
        (
            "spec.affinity.podAffinity",
            requires(affinity.and_then(|a| a.pod_affinity.as_ref())),
        ),
        (
            "spec.affinity.podAntiAffinity",
            requires(affinity.and_then(|a| a.pod_anti_affinity.as_ref())),
        ),
        ("spec.resourceClaims", !spec.resource_claims.is_empty()),
        ("spec.volumes", spec.volumes.iter().any(is_claimed)),
    ];
    let used = all.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(field, _)| field).collect()
}
