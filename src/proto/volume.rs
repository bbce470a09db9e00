//! Volumes and ephemeral containers. Kubernetes' protobuf writes them differently from its JSON.

use super::v1::{EphemeralContainer, Volume, VolumeMount, VolumeSource};

impl Volume {
    /// Returns the volume's source from either form.
    pub fn source(&self) -> VolumeSource {
        let source = self.volume_source.clone().unwrap_or_default();
        macro_rules! either {
            ($($field:ident),*) => {
                VolumeSource { $($field: source.$field.or_else(|| self.$field.clone()),)* }
            };
        }
        either!(
            gce_persistent_disk,
            aws_elastic_block_store,
            iscsi,
            persistent_volume_claim,
            rbd,
            csi,
            ephemeral
        )
    }
}

impl EphemeralContainer {
    /// Returns the container's mounts from either form.
    pub fn mounts(&self) -> impl Iterator<Item = &VolumeMount> {
        let common = self.ephemeral_container_common.iter();
        common
            .flat_map(|it| &it.volume_mounts)
            .chain(&self.volume_mounts)
    }
}
