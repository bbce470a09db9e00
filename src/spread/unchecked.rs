//! What a pod asks for that decides where it can run and that nobody here
//! checks (`docs/semantics.md`, "Node checks").

use crate::proto::v1;

/// The fields of a pod that no snapshot holds anything to check by, ascending.
pub fn fields(spec: &v1::PodSpec) -> Box<[&'static str]> {
    let is_claim = |source: v1::VolumeSource| {
        source.persistent_volume_claim.is_some()
            || source.csi.is_some()
            || source.ephemeral.is_some()
    };
    let claims = |volume: &v1::Volume| is_claim(volume.source());
    let all = [
        ("spec.resourceClaims", !spec.resource_claims.is_empty()),
        ("spec.volumes", spec.volumes.iter().any(claims)),
    ];
    let used = all.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(field, _)| field).collect()
}
