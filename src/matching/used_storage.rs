//! What storage pods use: claims, and disks that they share by rules of their own
//! (`docs/semantics.md`, "Volumes").

use std::borrow::Cow;

use super::names;
use super::storage::VolumeClaim;
use super::violations::{Path, Violations};
use crate::account::heap;
use crate::proto::v1;

/// Kinds of disks that pods on a node share by rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskKind {
    /// Google Compute Engine.
    Gce,
    /// Amazon's Elastic Block Store.
    Aws,
    /// By iSCSI.
    Iscsi,
    /// Ceph.
    Rbd,
}

/// A disk that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodDisk {
    /// Its kind.
    pub kind: DiskKind,
    /// What tells it from others of its kind.
    pub id: Box<str>,
    /// Of an image of Ceph: the monitors.
    pub monitors: Box<[Box<str>]>,
    /// Whether the pod only reads it.
    pub read_only: bool,
}

impl PodDisk {
    /// The disks of a volume.
    fn of(source: &v1::VolumeSource) -> impl Iterator<Item = Self> {
        let disk = |kind, id: &str, read_only| Self {
            kind,
            id: id.into(),
            monitors: Box::default(),
            read_only,
        };
        let gce = source.gce_persistent_disk.as_ref();
        let aws = source.aws_elastic_block_store.as_ref();
        let iscsi = source.iscsi.as_ref();
        let rbd = source.rbd.as_ref();
        [
            gce.map(|it| disk(DiskKind::Gce, &it.pd_name, it.read_only)),
            aws.map(|it| disk(DiskKind::Aws, &it.volume_id, it.read_only)),
            iscsi.map(|it| disk(DiskKind::Iscsi, &it.iqn, it.read_only)),
            rbd.map(|it| Self {
                monitors: it.monitors.iter().map(|m| m.as_str().into()).collect(),
                ..disk(
                    DiskKind::Rbd,
                    &format!("{}\n{}", it.pool, it.image),
                    it.read_only,
                )
            }),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns whether a pod with this disk cannot be where one with the other is.
    pub fn conflicts(&self, other: &Self) -> bool {
        let both_read = self.read_only && other.read_only;
        let shares_monitor = || self.monitors.iter().any(|m| other.monitors.contains(m));
        self.kind == other.kind
            && self.id == other.id
            && match self.kind {
                DiskKind::Aws => true,
                DiskKind::Gce | DiskKind::Iscsi => !both_read,
                DiskKind::Rbd => !both_read && shares_monitor(),
            }
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let monitors = self.monitors.iter().map(|m| heap::block(m.len()));
        heap::block(self.id.len())
            + heap::list::<Box<str>>(self.monitors.len())
            + monitors.sum::<usize>()
    }
}

/// What storage an existing pod uses that decides about others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedStorage {
    /// Its claims, as [`relative`] names them.
    pub claims: Box<[Box<str>]>,
    /// Its disks.
    pub disks: Box<[PodDisk]>,
}

/// A claim as pods of one workload name it: after what comes before the name of the pod,
/// which a slash stands for.
pub fn relative(claim: &str, pod: &str) -> String {
    match claim.strip_suffix(pod) {
        Some(before) if before.ends_with('-') && !pod.is_empty() => format!("{before}/"),
        _ => claim.to_owned(),
    }
}

/// The claim that [`relative`] named.
pub fn absolute<'c>(claim: &'c str, pod: &str) -> Cow<'c, str> {
    match claim.strip_suffix('/') {
        Some(before) => format!("{before}{pod}").into(),
        None => claim.into(),
    }
}

/// The volumes of a pod that are kept when it exists, their claims relative to its name.
pub fn kept_volumes(pod: &v1::Pod) -> Vec<v1::Volume> {
    let name = pod.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    let kept = volumes.filter_map(|volume| {
        let mut source = v1::VolumeSource {
            csi: None,
            ephemeral: None,
            ..volume.source()
        };
        if let Some(claim) = &mut source.persistent_volume_claim {
            claim.claim_name = relative(&claim.claim_name, name);
        }
        (source != v1::VolumeSource::default()).then(|| v1::Volume {
            volume_source: Some(source),
            ..v1::Volume::default()
        })
    });
    kept.collect()
}

impl UsedStorage {
    /// Returns what a pod uses with these volumes, which are kept of it; `None` if that is
    /// nothing.
    pub fn of(kept: &[v1::Volume]) -> Option<Self> {
        let sources: Vec<v1::VolumeSource> = kept.iter().map(v1::Volume::source).collect();
        let claims = sources.iter().flat_map(|s| &s.persistent_volume_claim);
        let used = Self {
            claims: claims
                .map(|claim| claim.claim_name.as_str().into())
                .collect(),
            disks: sources.iter().flat_map(PodDisk::of).collect(),
        };
        (used != Self::default()).then_some(used)
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let claims = self.claims.iter().map(|claim| heap::block(claim.len()));
        let disks = self.disks.iter().map(PodDisk::heap_bytes);
        heap::list::<Box<str>>(self.claims.len())
            + heap::list::<PodDisk>(self.disks.len())
            + claims.sum::<usize>()
            + disks.sum::<usize>()
    }
}

/// Checks the claims that a pod names; `path` is that of its spec. Clients of version 0.1
/// know no names of claims, and leave them out.
pub fn check_claim_names(spec: &v1::PodSpec, path: Path<'_>, faults: &mut Violations) {
    let list = path.field("volumes");
    for (path, volume) in list.each(&spec.volumes) {
        let claim = volume.source().persistent_volume_claim;
        if let Some(claim) = claim.filter(|claim| !claim.claim_name.is_empty()) {
            let path = path.field("persistentVolumeClaim");
            names::check_name(&claim.claim_name, path.field("claimName"), faults);
        }
    }
}

/// A claim that an incoming pod uses.
#[derive(Debug, Clone)]
pub struct PodClaim {
    /// Its name.
    pub name: Box<str>,
    /// Whether it is made with the pod, which then has to own it.
    pub is_ephemeral: bool,
    /// What it is made of while there is none, for a pod that is yet to be created.
    pub template: Option<Box<VolumeClaim>>,
}

/// The storage of an incoming pod.
#[derive(Debug, Clone, Default)]
pub struct PodStorage {
    /// Its claims, in the order of its volumes.
    pub claims: Box<[PodClaim]>,
    /// Its disks.
    pub disks: Box<[PodDisk]>,
}

impl PodStorage {
    /// Checks and compiles it; `path` is that of the spec.
    pub fn compile(
        metadata: &v1::ObjectMeta,
        spec: &v1::PodSpec,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        check_claim_names(spec, path, faults);
        let list = path.field("volumes");
        let (mut claims, mut disks) = (Vec::new(), Vec::new());
        for (path, volume) in list.each(&spec.volumes) {
            let source = volume.source();
            disks.extend(PodDisk::of(&source));
            let named = source.persistent_volume_claim;
            let wire = source.ephemeral.and_then(|it| it.volume_claim_template);
            let template = wire.filter(|_| metadata.uid.is_empty()).map(|template| {
                let path = path.field("ephemeral");
                let path = path.field("volumeClaimTemplate");
                let claim = v1::PersistentVolumeClaim {
                    spec: template.spec,
                    ..v1::PersistentVolumeClaim::default()
                };
                Box::new(VolumeClaim::compile(&claim, path, faults))
            });
            let is_ephemeral = named.is_none();
            if is_ephemeral && volume.source().ephemeral.is_none() {
                continue;
            }
            let of_pod = || format!("{}-{}", metadata.name, volume.name);
            claims.push(PodClaim {
                name: named.map_or_else(of_pod, |claim| claim.claim_name).into(),
                is_ephemeral,
                template,
            });
        }
        Self {
            claims: claims.into(),
            disks: disks.into(),
        }
    }

    /// Returns whether it is none that decides anything.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.disks.is_empty()
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let claim = |claim: &PodClaim| {
            let template = claim.template.as_ref();
            heap::block(claim.name.len())
                + template.map_or(0, |it| {
                    heap::block(size_of::<VolumeClaim>()) + it.heap_bytes()
                })
        };
        heap::list::<PodClaim>(self.claims.len())
            + heap::list::<PodDisk>(self.disks.len())
            + self.claims.iter().map(claim).sum::<usize>()
            + self.disks.iter().map(PodDisk::heap_bytes).sum::<usize>()
    }
}
