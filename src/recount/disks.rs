//! Disks that two pods may not use on one node.

use crate::proto::v1::{Pod, VolumeSource};

pub(super) fn sources(pod: &Pod) -> impl Iterator<Item = VolumeSource> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    volumes.map(|volume| volume.source())
}

pub(super) fn is_disk(source: &VolumeSource) -> bool {
    source.gce_persistent_disk.is_some()
        || source.aws_elastic_block_store.is_some()
        || source.iscsi.is_some()
        || source.rbd.is_some()
}

/// Returns whether these are one disk that two pods may not use on one node.
pub(super) fn is_one_disk(one: &VolumeSource, other: &VolumeSource) -> bool {
    let gce = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (
            a.gce_persistent_disk.as_ref()?,
            b.gce_persistent_disk.as_ref()?,
        );
        Some(a.pd_name == b.pd_name && !(a.read_only && b.read_only))
    };
    let aws = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (
            a.aws_elastic_block_store.as_ref()?,
            b.aws_elastic_block_store.as_ref()?,
        );
        Some(a.volume_id == b.volume_id)
    };
    let iscsi = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (a.iscsi.as_ref()?, b.iscsi.as_ref()?);
        Some(a.iqn == b.iqn && !(a.read_only && b.read_only))
    };
    let rbd = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (a.rbd.as_ref()?, b.rbd.as_ref()?);
        let shares = a
            .monitors
            .iter()
            .any(|monitor| b.monitors.contains(monitor));
        let same = (&a.pool, &a.image) == (&b.pool, &b.image);
        Some(same && shares && !(a.read_only && b.read_only))
    };
    let all = [
        gce(one, other),
        aws(one, other),
        iscsi(one, other),
        rbd(one, other),
    ];
    all.contains(&Some(true))
}
