//! Persistent volume claims, persistent volumes and storage classes, the rules by which they fit
//! together, and the storage that pods use: claims, and disks that have their own rules for sharing
//! (`docs/semantics.md`, "Volumes").

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::amounts::Quantity;
use super::names;
use super::names::HOSTNAME;
use super::node_affinity::{NeededLabels, NodeAffinity};
use super::selector::Selector;
use super::selector::set_of;
use super::violations::{Path, Violations};
use crate::limits::Limits;
use crate::proto::v1;

/// The name of the resource that claims request and that volumes have as their capacity.
const STORAGE: &str = "storage";

/// The annotation of a claim that is bound to its volume.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a claim whose volume is being provisioned for a node.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation that gives claims and volumes their class.
pub const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The name of a provisioner that means that nothing is provisioned.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The labels of volumes and nodes for zones and regions, each with its newer name.
pub const ZONE_LABELS: [(&str, &str); 4] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];

/// The most lists in which a volume is found. One that more labels reach is found from all nodes.
const MOST_LISTS: usize = 8;

/// The metadata that is kept of a claim or a volume, without its name.
fn kept_metadata(wire: Option<&v1::ObjectMeta>) -> v1::ObjectMeta {
    let wire = wire.cloned().unwrap_or_default();
    let read = [BIND_COMPLETED, SELECTED_NODE, BETA_CLASS];
    let annotations = wire.annotations.into_iter();
    v1::ObjectMeta {
        name: String::new(),
        namespace: String::new(),
        resource_version: String::new(),
        annotations: annotations
            .filter(|(key, _)| read.contains(&&**key))
            .collect(),
        ..wire
    }
}

/// Returns the quantity of storage in a map of quantities; zero if it is missing.
fn size(
    amounts: Option<&BTreeMap<String, v1::Quantity>>,
    path: Path<'_>,
    faults: &mut Violations,
) -> Quantity {
    let Some(text) = amounts.and_then(|amounts| amounts.get(STORAGE)) else {
        return Quantity::default();
    };
    Quantity::parse(&text.string).unwrap_or_else(|| {
        faults.add(path.field(STORAGE), "must be a quantity of at least 0");
        Quantity::default()
    })
}

fn is_block(mode: Option<&String>) -> bool {
    mode.is_some_and(|mode| mode == "Block")
}

/// The most comparisons of access modes, beyond which a set is made.
const FEW_MODES: usize = 64;

/// The requirements of a claim, except its size, on volumes that are reserved for no claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimKind<'a> {
    class: &'a str,
    is_block: bool,
    attributes: &'a str,
    access_modes: &'a [String],
    selector: Option<&'a Selector>,
}

/// A claim.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeClaim {
    /// The fields that are kept, without the name.
    pub wire: v1::PersistentVolumeClaim,
    /// The storage that the claim requests.
    pub size: Quantity,
    selector: Option<Selector>,
}

impl VolumeClaim {
    /// Checks and compiles a claim, which is at `path`.
    pub fn compile(
        wire: &v1::PersistentVolumeClaim,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let mut spec = wire.spec.clone().unwrap_or_default();
        let at = path.field("spec");
        if let Some(resources) = &mut spec.resources {
            resources.requests.retain(|name, _| name == STORAGE);
        }
        let requests = at.field("resources.requests");
        let amounts = spec.resources.as_ref().map(|it| &it.requests);
        let selector = spec.selector.as_ref();
        Self {
            size: size(amounts, requests, faults),
            selector: selector.map(|it| Selector::compile(Some(it), at.field("selector"), faults)),
            wire: v1::PersistentVolumeClaim {
                metadata: Some(kept_metadata(wire.metadata.as_ref())),
                spec: Some(spec),
                status: wire.status.clone(),
            },
        }
    }

    /// The claim's spec.
    pub fn spec(&self) -> &v1::PersistentVolumeClaimSpec {
        let spec = self.wire.spec.as_ref();
        spec.expect("a compiled claim has a spec")
    }

    /// The claim's metadata, without its name.
    pub fn metadata(&self) -> &v1::ObjectMeta {
        let metadata = self.wire.metadata.as_ref();
        metadata.expect("a compiled claim has metadata")
    }

    /// The name of the claim's class; empty without one.
    pub fn class(&self) -> &str {
        let of_annotation = self.metadata().annotations.get(BETA_CLASS);
        let class = of_annotation.or(self.spec().storage_class_name.as_ref());
        class.map_or("", |class| class)
    }

    /// Returns whether the claim is bound to its volume.
    pub fn is_bound(&self) -> bool {
        !self.spec().volume_name.is_empty()
            && self.metadata().annotations.contains_key(BIND_COMPLETED)
    }

    /// The name of the node that the claim's volume is being provisioned for.
    pub fn selected_node(&self) -> Option<&str> {
        let selected = self.metadata().annotations.get(SELECTED_NODE);
        selected.map(String::as_str)
    }

    /// Returns whether the claim's volume is gone.
    pub fn is_lost(&self) -> bool {
        self.wire
            .status
            .as_ref()
            .is_some_and(|status| status.phase == "Lost")
    }

    /// Returns whether only one pod may use the claim.
    pub fn is_once_per_pod(&self) -> bool {
        self.spec()
            .access_modes
            .iter()
            .any(|mode| mode == "ReadWriteOncePod")
    }

    /// The claim's requirements except its size.
    pub fn kind(&self) -> ClaimKind<'_> {
        let claim = self.spec();
        ClaimKind {
            class: self.class(),
            is_block: is_block(claim.volume_mode.as_ref()),
            attributes: claim.volume_attributes_class_name.as_deref().unwrap_or(""),
            access_modes: &claim.access_modes,
            selector: self.selector.as_ref(),
        }
    }

    /// Returns the number of requirements that a volume is checked against.
    pub fn requirements(&self) -> usize {
        let selector = self.selector.as_ref().map_or(0, Selector::len);
        1 + selector + self.spec().access_modes.len()
    }

    /// Returns whether the claim can be bound to a volume of its class. Rules that depend on the
    /// node are not checked. Fewer rules apply to a volume that is reserved for the claim.
    pub fn takes(&self, volume: &PersistentVolume, is_kept_for_it: bool) -> bool {
        let (claim, spec) = (self.spec(), volume.spec());
        let fits = volume.size >= self.size
            && is_block(claim.volume_mode.as_ref()) == is_block(spec.volume_mode.as_ref())
            && claim.volume_attributes_class_name.as_deref().unwrap_or("")
                == spec.volume_attributes_class_name.as_deref().unwrap_or("")
            && volume.metadata().deletion_timestamp.is_none();
        let selects = || {
            let selector = self.selector.as_ref();
            selector.is_none_or(|it| it.matches_labels(&volume.metadata().labels))
        };
        let has_modes = || has_all(&spec.access_modes, &claim.access_modes);
        fits && (is_kept_for_it || volume.is_available() && selects() && has_modes())
    }
}

/// Returns whether a list has all wanted texts.
fn has_all(list: &[String], wanted: &[String]) -> bool {
    if list.len().saturating_mul(wanted.len()) <= FEW_MODES {
        return wanted.iter().all(|text| list.contains(text));
    }
    let list: HashSet<&String> = list.iter().collect();
    wanted.iter().all(|text| list.contains(text))
}

/// A label of a zone or region, its newer name, and its values.
pub type ZoneLabel = (&'static str, &'static str, Box<[Box<str>]>);

/// A persistent volume.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolume {
    /// The fields that are kept, without the name.
    pub wire: v1::PersistentVolume,
    /// The capacity of the volume.
    pub size: Quantity,
    /// The rule for the nodes that reach the volume; `None` if all nodes do.
    pub affinity: Option<NodeAffinity>,
    /// The volume's readable labels of zones and regions, with their values.
    pub zones: Box<[ZoneLabel]>,
}

impl PersistentVolume {
    /// Checks and compiles a volume, which is at `path`.
    pub fn compile(
        wire: &v1::PersistentVolume,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let mut spec = wire.spec.clone().unwrap_or_default();
        let at = path.field("spec");
        spec.capacity.retain(|name, _| name == STORAGE);
        let source = spec.persistent_volume_source.take();
        spec.csi = spec.csi.or(source.and_then(|source| source.csi));
        let required = spec
            .node_affinity
            .as_ref()
            .and_then(|it| it.required.as_ref());
        let affinity_path = at.field("nodeAffinity.required");
        let affinity =
            required.map(|wire| NodeAffinity::of_volume(wire, limits, affinity_path, faults));
        let metadata = kept_metadata(wire.metadata.as_ref());
        let zones = ZONE_LABELS.into_iter().filter_map(|(label, new)| {
            let values = metadata.labels.get(label)?.split("__").map(str::trim);
            let values: Box<[Box<str>]> = values.map(Box::from).collect();
            // If a part of the value is empty, the whole label is ignored.
            (!values.iter().any(|value| value.is_empty())).then_some((label, new, values))
        });
        Self {
            size: size(Some(&spec.capacity), at.field("capacity"), faults),
            affinity,
            zones: zones.collect(),
            wire: v1::PersistentVolume {
                metadata: Some(metadata),
                spec: Some(spec),
                status: wire.status.clone(),
            },
        }
    }

    /// The volume's spec.
    pub fn spec(&self) -> &v1::PersistentVolumeSpec {
        let spec = self.wire.spec.as_ref();
        spec.expect("a compiled volume has a spec")
    }

    /// The volume's metadata, without its name.
    pub fn metadata(&self) -> &v1::ObjectMeta {
        let metadata = self.wire.metadata.as_ref();
        metadata.expect("a compiled volume has metadata")
    }

    /// The name of the volume's class; empty without one.
    pub fn class(&self) -> &str {
        let of_annotation = self.metadata().annotations.get(BETA_CLASS);
        of_annotation.unwrap_or(&self.spec().storage_class_name)
    }

    /// Returns the labels of which a node needs one to reach the volume. `None` if there are many or
    /// none. Labels that few nodes have are preferred.
    pub fn needed_labels(&self) -> Option<NeededLabels<'_>> {
        let is_zone = |key: &str| {
            ZONE_LABELS
                .iter()
                .any(|(old, new)| key == *old || key == *new)
        };
        let needed = self.affinity.as_ref()?.needed_labels(|key| match key {
            HOSTNAME => 0,
            _ if is_zone(key) => 2,
            _ => 1,
        });
        needed.filter(|needed| needed.pairs.len() <= MOST_LISTS)
    }

    /// Upper estimate of how many requirements a node is checked against.
    pub fn per_node(&self) -> usize {
        1 + self.affinity.as_ref().map_or(0, NodeAffinity::per_node)
    }

    /// Returns whether claims can be bound to the volume.
    pub fn is_available(&self) -> bool {
        self.wire
            .status
            .as_ref()
            .is_some_and(|status| status.phase == "Available")
    }
}

/// A class of storage.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClass {
    /// The fields that are kept, without the name.
    pub wire: v1::StorageClass,
}

impl StorageClass {
    /// Compiles a class.
    pub fn compile(wire: &v1::StorageClass) -> Self {
        let uid = wire.metadata.as_ref().map(|it| it.uid.clone());
        Self {
            wire: v1::StorageClass {
                metadata: Some(v1::ObjectMeta {
                    uid: uid.unwrap_or_default(),
                    ..v1::ObjectMeta::default()
                }),
                ..wire.clone()
            },
        }
    }

    /// Returns whether claims of the class wait for a pod before they are bound; `None` if the
    /// class does not say.
    pub fn waits(&self) -> Option<bool> {
        let mode = self.wire.volume_binding_mode.as_ref();
        mode.map(|mode| mode == "WaitForFirstConsumer")
    }

    /// Returns whether volumes of the class are provisioned.
    pub fn provisions(&self) -> bool {
        !matches!(&*self.wire.provisioner, "" | NO_PROVISIONER)
    }

    /// Returns the number of requirements that a node is checked against.
    pub fn requirements(&self) -> usize {
        let terms = self.wire.allowed_topologies.iter();
        let wanted = terms.flat_map(|term| &term.match_label_expressions);
        wanted.map(|wanted| 1 + wanted.values.len()).sum()
    }

    /// Returns whether a volume can be provisioned for a node; `label` returns the node's labels.
    pub fn is_allowed<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let terms = &self.wire.allowed_topologies;
        let has = |wanted: &v1::TopologySelectorLabelRequirement| {
            let value = label(&wanted.key);
            value.is_some_and(|value| wanted.values.iter().any(|it| it == value))
        };
        let matches = |term: &v1::TopologySelectorTerm| {
            let all = &term.match_label_expressions;
            !all.is_empty() && all.iter().all(has)
        };
        terms.is_empty() || terms.iter().any(matches)
    }
}

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
