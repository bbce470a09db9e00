//! Volumes, which Kubernetes' protobuf and its JSON write in different ways.

use super::v1::{Volume, VolumeSource};

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
