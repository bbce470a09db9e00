//! Volumes and ephemeral containers. Kubernetes' protobuf writes them differently from its JSON.

use std::borrow::Cow;

use super::v1::{EphemeralContainer, Volume, VolumeMount, VolumeSource};

macro_rules! of_both_forms {
    ($($field:ident),*) => {
        /// The source of a volume that names none.
        static NO_SOURCE: VolumeSource = VolumeSource { $($field: None,)* };

        impl Volume {
            /// Returns the volume's source from either form.
            pub fn source(&self) -> Cow<'_, VolumeSource> {
                let source = self.volume_source.as_ref().unwrap_or(&NO_SOURCE);
                if ![$(self.$field.is_some()),*].contains(&true) {
                    return Cow::Borrowed(source);
                }
                Cow::Owned(VolumeSource {
                    $($field: source.$field.as_ref().or(self.$field.as_ref()).cloned(),)*
                })
            }
        }
    };
}

of_both_forms!(
    gce_persistent_disk,
    aws_elastic_block_store,
    iscsi,
    persistent_volume_claim,
    rbd,
    csi,
    ephemeral
);

impl EphemeralContainer {
    /// Returns the container's mounts from either form.
    pub fn mounts(&self) -> impl Iterator<Item = &VolumeMount> {
        let common = self.ephemeral_container_common.iter();
        common
            .flat_map(|it| &it.volume_mounts)
            .chain(&self.volume_mounts)
    }
}
