//! Claims, persistent volumes and classes of storage, and which of them fit together
//! (`docs/semantics.md`, "Volumes").

use std::collections::BTreeMap;

use super::node_affinity::NodeAffinity;
use super::quantity::Quantity;
use super::selector::Selector;
use super::violations::{Path, Violations};
use crate::account::heap;
use crate::limits::Limits;
use crate::proto::v1;

/// The resource that claims request, and of which volumes have a capacity.
const STORAGE: &str = "storage";

/// The annotation of a claim that is bound to its volume.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a claim whose volume is being made for a node.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation that gives claims and volumes their class.
pub const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The provisioner that makes nothing.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The labels by which volumes and nodes are in zones and regions.
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

/// The metadata that is kept of an object of storage, without its name.
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

/// Returns how much storage it is; nothing said is nothing.
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

/// About what a message takes on the heap where it is kept: its texts are blocks.
fn message_bytes(message: &impl prost::Message) -> usize {
    const PER_BYTE: usize = 4;
    PER_BYTE * message.encoded_len()
}

/// A claim.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeClaim {
    /// What is kept of it, without its name.
    pub wire: v1::PersistentVolumeClaim,
    /// How much it asks for.
    pub size: Quantity,
    selector: Option<Selector>,
}

impl VolumeClaim {
    /// Checks and compiles one, which is at `path`.
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
        let requests = at.field("resources");
        let requests = requests.field("requests");
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

    /// Its spec.
    pub fn spec(&self) -> &v1::PersistentVolumeClaimSpec {
        let spec = self.wire.spec.as_ref();
        spec.expect("a compiled claim has a spec")
    }

    /// Its metadata, without its name.
    pub fn metadata(&self) -> &v1::ObjectMeta {
        let metadata = self.wire.metadata.as_ref();
        metadata.expect("a compiled claim has metadata")
    }

    /// The name of its class; empty without one.
    pub fn class(&self) -> &str {
        let of_annotation = self.metadata().annotations.get(BETA_CLASS);
        let class = of_annotation.or(self.spec().storage_class_name.as_ref());
        class.map_or("", |class| class)
    }

    /// Returns whether it is bound to its volume.
    pub fn is_bound(&self) -> bool {
        !self.spec().volume_name.is_empty()
            && self.metadata().annotations.contains_key(BIND_COMPLETED)
    }

    /// The node that its volume is being made for.
    pub fn selected_node(&self) -> Option<&str> {
        let selected = self.metadata().annotations.get(SELECTED_NODE);
        selected.map(String::as_str)
    }

    /// Returns whether its volume is gone.
    pub fn is_lost(&self) -> bool {
        self.wire
            .status
            .as_ref()
            .is_some_and(|status| status.phase == "Lost")
    }

    /// Returns whether one pod alone may use it.
    pub fn is_once_per_pod(&self) -> bool {
        self.spec()
            .access_modes
            .iter()
            .any(|mode| mode == "ReadWriteOncePod")
    }

    /// Returns whether it could be bound to a volume of its class, as far as no node decides.
    /// That of one which is kept for it is not looked at closely.
    pub fn takes(&self, volume: &PersistentVolume, is_kept_for_it: bool) -> bool {
        let (claim, spec) = (self.spec(), volume.spec());
        let attributes = |name: &Option<String>| name.clone().unwrap_or_default();
        let fits = volume.size >= self.size
            && is_block(claim.volume_mode.as_ref()) == is_block(spec.volume_mode.as_ref())
            && attributes(&claim.volume_attributes_class_name)
                == attributes(&spec.volume_attributes_class_name)
            && volume.metadata().deletion_timestamp.is_none();
        let selects = || {
            let selector = self.selector.as_ref();
            selector.is_none_or(|it| it.matches_labels(&volume.metadata().labels))
        };
        let has = |mode: &String| spec.access_modes.contains(mode);
        fits && (is_kept_for_it
            || volume.is_available() && selects() && claim.access_modes.iter().all(has))
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let selector = self.selector.as_ref().map_or(0, Selector::heap_bytes);
        message_bytes(&self.wire) + selector
    }
}

/// A label of a zone or region, its newer name, and its values.
pub type ZoneLabel = (&'static str, &'static str, Box<[Box<str>]>);

/// A persistent volume.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolume {
    /// What is kept of it, without its name.
    pub wire: v1::PersistentVolume,
    /// How much it holds.
    pub size: Quantity,
    affinity: Option<NodeAffinity>,
    /// Its labels of zones and regions that can be read, with their values.
    pub zones: Box<[ZoneLabel]>,
}

impl PersistentVolume {
    /// Checks and compiles one, which is at `path`.
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
        let affinity_path = at.field("nodeAffinity");
        let affinity = required.map(|wire| {
            NodeAffinity::of_volume(wire, limits, affinity_path.field("required"), faults)
        });
        let metadata = kept_metadata(wire.metadata.as_ref());
        let zones = ZONE_LABELS.into_iter().filter_map(|(label, new)| {
            let values = metadata.labels.get(label)?.split("__").map(str::trim);
            let values: Box<[Box<str>]> = values.map(Box::from).collect();
            // A part that is empty has the whole label ignored.
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

    /// Its spec.
    pub fn spec(&self) -> &v1::PersistentVolumeSpec {
        let spec = self.wire.spec.as_ref();
        spec.expect("a compiled volume has a spec")
    }

    /// Its metadata, without its name.
    pub fn metadata(&self) -> &v1::ObjectMeta {
        let metadata = self.wire.metadata.as_ref();
        metadata.expect("a compiled volume has metadata")
    }

    /// The name of its class; empty without one.
    pub fn class(&self) -> &str {
        let of_annotation = self.metadata().annotations.get(BETA_CLASS);
        of_annotation.unwrap_or(&self.spec().storage_class_name)
    }

    /// Returns whether claims are bound to it.
    pub fn is_available(&self) -> bool {
        self.wire
            .status
            .as_ref()
            .is_some_and(|status| status.phase == "Available")
    }

    /// Which nodes reach it; `None` where all do.
    pub fn affinity(&self) -> Option<&NodeAffinity> {
        self.affinity.as_ref()
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let zones = self.zones.iter().flat_map(|(.., values)| values);
        let affinity = self.affinity.as_ref().map_or(0, NodeAffinity::heap_bytes);
        message_bytes(&self.wire)
            + affinity
            + size_of_val(&*self.zones)
            + zones.map(|zone| heap::block(zone.len())).sum::<usize>()
    }
}

/// A class of storage.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClass {
    /// What is kept of it, without its name.
    pub wire: v1::StorageClass,
}

impl StorageClass {
    /// Compiles one.
    pub fn compile(wire: &v1::StorageClass) -> Self {
        Self {
            wire: v1::StorageClass {
                metadata: Some(v1::ObjectMeta {
                    uid: wire
                        .metadata
                        .as_ref()
                        .map_or_else(String::new, |it| it.uid.clone()),
                    ..v1::ObjectMeta::default()
                }),
                ..wire.clone()
            },
        }
    }

    /// Returns whether claims wait for a pod; `None` where it does not say.
    pub fn waits(&self) -> Option<bool> {
        let mode = self.wire.volume_binding_mode.as_ref();
        mode.map(|mode| mode == "WaitForFirstConsumer")
    }

    /// Returns whether volumes are made.
    pub fn provisions(&self) -> bool {
        !matches!(&*self.wire.provisioner, "" | NO_PROVISIONER)
    }

    /// Returns whether a volume can be made for a node, whose labels are given.
    pub fn is_allowed<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let terms = &self.wire.allowed_topologies;
        let has = |wanted: &v1::TopologySelectorLabelRequirement| {
            let value = label(&wanted.key);
            value.is_some_and(|value| wanted.values.iter().any(|it| it == value))
        };
        let mut matching = terms.iter().filter(|term| {
            let all = &term.match_label_expressions;
            !all.is_empty() && all.iter().all(has)
        });
        terms.is_empty() || matching.next().is_some()
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        message_bytes(&self.wire)
    }
}
