//! What a pod asks for that decides where it can run and that nobody here
//! checks (`docs/semantics.md`, "Node checks").

use crate::proto::v1;

/// The fields of a pod that no snapshot holds anything to check by, ascending.
pub fn fields(spec: &v1::PodSpec) -> Box<[&'static str]> {
    let affinity = spec.affinity.as_ref();
    let requires = |rules: &v1::PodAffinity| {
        let required = &rules.required_during_scheduling_ignored_during_execution;
        !required.is_empty()
    };
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let is_claim = |source: v1::VolumeSource| {
        source.persistent_volume_claim.is_some()
            || source.csi.is_some()
            || source.ephemeral.is_some()
    };
    let claims = |volume: &v1::Volume| is_claim(volume.source());
    let all = [
        ("spec.affinity.podAffinity", near.is_some_and(requires)),
        ("spec.affinity.podAntiAffinity", apart.is_some_and(requires)),
        ("spec.resourceClaims", !spec.resource_claims.is_empty()),
        ("spec.volumes", spec.volumes.iter().any(claims)),
    ];
    let used = all.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(field, _)| field).collect()
}
