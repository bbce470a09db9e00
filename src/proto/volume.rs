//! Volumes and ephemeral containers, which Kubernetes' protobuf and its JSON write in
//! different ways.

use super::v1::{EphemeralContainer, Volume, VolumeMount, VolumeSource};

impl Volume {
    /// Where it comes from, whichever way it says that.
    pub fn source(&self) -> VolumeSource {
        let source = self.volume_source.unwrap_or_default();
        VolumeSource {
            persistent_volume_claim: source
                .persistent_volume_claim
                .or(self.persistent_volume_claim),
            csi: source.csi.or(self.csi),
            ephemeral: source.ephemeral.or(self.ephemeral),
        }
    }
}

impl EphemeralContainer {
    /// Where volumes are in it, whichever way it says that.
    pub fn mounts(&self) -> impl Iterator<Item = &VolumeMount> {
        let common = self.ephemeral_container_common.iter();
        common
            .flat_map(|it| &it.volume_mounts)
            .chain(&self.volume_mounts)
    }
}
