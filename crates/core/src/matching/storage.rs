//! Persistent volume claims, persistent volumes and storage classes, and the rules by which they
//! fit together (`docs/semantics.md`, "Volumes").

use std::collections::{BTreeMap, HashSet};

use super::names::HOSTNAME;
use super::node_affinity::{NeededLabels, NodeAffinity};
use super::quantity::Quantity;
use super::selector::Selector;
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
