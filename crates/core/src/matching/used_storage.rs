//! The storage that pods use: claims, and disks that have their own rules for sharing
//! (`docs/semantics.md`, "Volumes").

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::names;
use super::sets::set_of;
use super::storage::VolumeClaim;
use super::violations::{Path, Violations};
use crate::proto::v1;

/// Kinds of disks, each with its own rule for pods that share a disk on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskKind {
    /// Google Compute Engine.
    Gce,
    /// Amazon's Elastic Block Store.
    Aws,
    /// A disk over iSCSI.
    Iscsi,
    /// Ceph.
    Rbd,
}

/// A disk that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodDisk {
    /// The disk's kind.
    pub kind: DiskKind,
    /// The disk's id among those of its kind.
    pub id: Box<str>,
    /// The monitors of an image of Ceph, sorted.
    pub monitors: Box<[Box<str>]>,
    /// True if the pod only reads the disk.
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
                monitors: set_of(it.monitors.iter().map(|m| m.as_str().into())),
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

    /// Returns whether two pods with this disk cannot share a node.
    pub fn is_exclusive(&self) -> bool {
        match self.kind {
            DiskKind::Aws => true,
            DiskKind::Gce | DiskKind::Iscsi => !self.read_only,
            DiskKind::Rbd => !self.read_only && !self.monitors.is_empty(),
        }
    }
}

/// How a pod uses a disk.
#[derive(Debug, Clone, Default)]
struct DiskUse<'a> {
    /// True if the pod writes the disk.
    writes: bool,
    /// The monitors through which the pod uses the disk, each with whether it writes there.
    monitors: HashMap<&'a str, bool>,
}

/// The disks of a pod, to be compared with those of others.
#[derive(Debug, Clone, Default)]
pub struct DiskUses<'a>(HashMap<(DiskKind, &'a str), DiskUse<'a>>);

impl<'a> DiskUses<'a> {
    /// The uses of these disks.
    pub fn of(disks: &'a [PodDisk]) -> Self {
        let mut uses: HashMap<_, DiskUse<'a>> = HashMap::new();
        for disk in disks {
            let used = uses.entry((disk.kind, &*disk.id)).or_default();
            used.writes |= !disk.read_only;
            for monitor in &disk.monitors {
                *used.monitors.entry(monitor).or_default() |= !disk.read_only;
            }
        }
        Self(uses)
    }

    /// The kinds and ids of the disks, each once.
    pub fn ids(&self) -> impl Iterator<Item = (DiskKind, &'a str)> {
        self.0.keys().copied()
    }

    /// Returns whether a pod with this disk cannot share a node with the pod.
    pub fn conflict_with(&self, other: &PodDisk) -> bool {
        let Some(used) = self.0.get(&(other.kind, &*other.id)) else {
            return false;
        };
        let writes = !other.read_only;
        match other.kind {
            DiskKind::Aws => true,
            DiskKind::Gce | DiskKind::Iscsi => writes || used.writes,
            DiskKind::Rbd => {
                let mut shared = other.monitors.iter();
                shared.any(|monitor| {
                    let here = used.monitors.get(&**monitor);
                    here.is_some_and(|here| writes || *here)
                })
            }
        }
    }
}

/// The storage of an existing pod that matters to decisions about other pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsedStorage {
    /// The pod's claims, with names from `relative`. The pod of a reservation may have claims
    /// that do not exist yet and have no name.
    pub claims: Box<[PodClaim]>,
    /// The pod's disks.
    pub disks: Box<[PodDisk]>,
}

/// A claim's name, with a slash instead of the name of the pod if it ends with that name. So the
/// pods of one workload have claims of the same name.
fn relative(claim: &str, pod: &str) -> String {
    match claim.strip_suffix(pod) {
        Some(before) if before.ends_with('-') && !pod.is_empty() => format!("{before}/"),
        _ => claim.to_owned(),
    }
}

/// The claim's full name, from the one that `relative` made.
pub fn absolute<'c>(claim: &'c str, pod: &str) -> Cow<'c, str> {
    match claim.strip_suffix('/') {
        Some(before) => format!("{before}{pod}").into(),
        None => claim.into(),
    }
}

/// The volumes that are kept of an existing pod, with claim names relative to its name. The pod of
/// a reservation keeps the templates of claims that do not exist yet.
pub fn kept_volumes(pod: &v1::Pod, is_reservation: bool) -> Vec<v1::Volume> {
    let name = pod.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    let kept = volumes.filter_map(|volume| kept(&volume.source(), name, is_reservation));
    kept.collect()
}

/// Returns the part of a volume with this source that is kept for a pod of this name, if any.
fn kept(whole: &v1::VolumeSource, pod: &str, with_template: bool) -> Option<v1::Volume> {
    let claim = whole.persistent_volume_claim.as_ref();
    let ephemeral = whole.ephemeral.as_ref().filter(|_| with_template);
    let source = v1::VolumeSource {
        gce_persistent_disk: whole.gce_persistent_disk.clone(),
        aws_elastic_block_store: whole.aws_elastic_block_store.clone(),
        iscsi: whole.iscsi.clone(),
        rbd: whole.rbd.clone(),
        persistent_volume_claim: claim.map(|claim| v1::ClaimSource {
            claim_name: relative(&claim.claim_name, pod),
        }),
        ephemeral: ephemeral
            .filter(|it| it.volume_claim_template.is_some())
            .cloned(),
        csi: None,
    };
    (source != v1::VolumeSource::default()).then(|| v1::Volume {
        volume_source: Some(source),
        ..v1::Volume::default()
    })
}

/// Returns the part of a pod's volume that a reservation keeps. An ephemeral claim has the name
/// `made`. The claim exists unless the pod is new.
fn held_volume(source: &v1::VolumeSource, made: &str, is_new: bool) -> Option<v1::Volume> {
    let is_ephemeral = source.persistent_volume_claim.is_none() && source.ephemeral.is_some();
    if is_new || !is_ephemeral {
        return kept(source, "", is_new);
    }
    let claim = v1::ClaimSource {
        claim_name: made.to_owned(),
    };
    Some(v1::Volume {
        volume_source: Some(v1::VolumeSource {
            persistent_volume_claim: Some(claim),
            ..v1::VolumeSource::default()
        }),
        ..v1::Volume::default()
    })
}

impl UsedStorage {
    /// Returns the storage that a pod uses, from the volumes that are kept of it; `None` if it uses
    /// none.
    pub fn of(kept: &[v1::Volume]) -> Option<Self> {
        // Volumes were checked before they were kept.
        let faults = &mut Violations::default();
        let path = Path::root("volumes");
        let (mut claims, mut disks) = (Vec::new(), Vec::new());
        for source in kept.iter().map(v1::Volume::source) {
            disks.extend(PodDisk::of(&source));
            claims.extend(PodClaim::of(&source, "", true, path, faults));
        }
        (!claims.is_empty() || !disks.is_empty()).then(|| Self {
            claims: claims.into(),
            disks: disks.into(),
        })
    }
}

/// Checks the claims that a pod names; `path` is that of its spec. Names may be empty, because
/// clients of version 0.1 do not know them.
pub fn check_claim_names(spec: &v1::PodSpec, path: Path<'_>, faults: &mut Violations) {
    let list = path.field("volumes");
    for (path, volume) in list.each(&spec.volumes) {
        let source = volume.source();
        let claim = source.persistent_volume_claim.as_ref();
        if let Some(claim) = claim.filter(|claim| !claim.claim_name.is_empty()) {
            let path = path.field("persistentVolumeClaim.claimName");
            names::check_name(&claim.claim_name, path, faults);
        }
    }
}

/// A claim that a pod uses.
#[derive(Debug, Clone, PartialEq)]
pub struct PodClaim {
    /// The claim's name.
    pub name: Box<str>,
    /// True if the claim is created together with the pod, which then has to own it.
    pub is_ephemeral: bool,
    /// The template of a claim that does not exist yet, because the pod does not.
    pub template: Option<Arc<VolumeClaim>>,
}

impl PodClaim {
    /// The claim of a volume, if any; the volume is at `path`. `made` is the name of a claim that is
    /// created with the pod, from the template if it `is_new`.
    fn of(
        source: &v1::VolumeSource,
        made: &str,
        is_new: bool,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        let named = source.persistent_volume_claim.as_ref();
        let is_ephemeral = named.is_none();
        if is_ephemeral && source.ephemeral.is_none() {
            return None;
        }
        let ephemeral = source.ephemeral.as_ref().filter(|_| is_new);
        let wire = ephemeral.and_then(|it| it.volume_claim_template.as_ref());
        let template = wire.map(|template| {
            let path = path.field("ephemeral.volumeClaimTemplate");
            let claim = v1::PersistentVolumeClaim {
                spec: template.spec.clone(),
                ..v1::PersistentVolumeClaim::default()
            };
            Arc::new(VolumeClaim::compile(&claim, path, faults))
        });
        Some(Self {
            name: named.map_or(made, |claim| &claim.claim_name).into(),
            is_ephemeral,
            template,
        })
    }
}

/// The storage of an incoming pod.
#[derive(Debug, Clone, Default)]
pub struct PodStorage {
    /// The pod's claims, in the order of its volumes.
    pub claims: Box<[PodClaim]>,
    /// The pod's disks.
    pub disks: Box<[PodDisk]>,
    /// The storage that a reservation for the pod uses.
    pub held: Arc<[v1::Volume]>,
}

impl PodStorage {
    /// Checks and compiles the storage of a pod; `path` is that of its spec.
    pub fn compile(
        metadata: &v1::ObjectMeta,
        spec: &v1::PodSpec,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        check_claim_names(spec, path, faults);
        let list = path.field("volumes");
        let (mut claims, mut disks, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let is_new = metadata.uid.is_empty();
        for (path, volume) in list.each(&spec.volumes) {
            let source = volume.source();
            disks.extend(PodDisk::of(&source));
            let of_pod = format!("{}-{}", metadata.name, volume.name);
            held.extend(held_volume(&source, &of_pod, is_new));
            // If the pod exists, its ephemeral claim exists too.
            claims.extend(PodClaim::of(&source, &of_pod, is_new, path, faults));
        }
        Self {
            claims: claims.into(),
            disks: disks.into(),
            held: held.into(),
        }
    }

    /// Returns whether the pod uses no storage that decisions depend on.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.disks.is_empty()
    }
}
