//! Claims, persistent volumes, classes, and the volumes of pods.

use evenkeel::proto::v1::{
    Change, ClaimReference, ClaimSource, ClaimTemplate, EphemeralSource, GcePersistentDiskSource,
    LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus, PersistentVolumeSpec, PersistentVolumeStatus, Quantity, RbdSource,
    ResourceRequirements, StorageClass, TopologySelectorLabelRequirement, TopologySelectorTerm,
    Volume, VolumeNodeAffinity, VolumeSource,
};
use proptest::collection::{btree_map, vec};
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::{NAMESPACES, UIDS, text};
use crate::build::{HOSTNAME, ZONE};
use crate::model::Stored;

pub(super) const CLAIMS: [&str; 4] = ["c0", "c1", "data-p0", "p0-v"];
pub(super) const VOLUMES: [&str; 8] = ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"];
pub(super) const CLASSES: [&str; 3] = ["wait", "local", "now"];
const MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

fn modes() -> impl Strategy<Value = Vec<String>> {
    let some = subsequence(&MODES, 0..=2);
    some.prop_map(|modes| modes.into_iter().map(str::to_owned).collect())
}

fn size() -> impl Strategy<Value = (String, Quantity)> {
    let sizes = text(&["1Gi", "1024Mi", "2Gi", "3G"]);
    sizes.prop_map(|string| ("storage".into(), Quantity { string }))
}

fn class() -> impl Strategy<Value = String> {
    text(&["wait", "wait", "local", "now", "gone", ""])
}

fn claim_spec() -> impl Strategy<Value = PersistentVolumeClaimSpec> {
    let selector = weighted(0.2, btree_map(text(&["tier"]), text(&["a"]), 0..=1));
    let volume = weighted(0.4, text(&VOLUMES));
    let mode = weighted(0.1, text(&["Block", "Filesystem"]));
    let asked = (size(), modes(), mode);
    (asked, volume, selector, option::of(class())).prop_map(
        |((size, access_modes, volume_mode), volume, selector, storage_class_name)| {
            PersistentVolumeClaimSpec {
                access_modes,
                resources: Some(ResourceRequirements {
                    requests: [size].into(),
                }),
                volume_name: volume.unwrap_or_default(),
                selector: selector.map(|match_labels| LabelSelector {
                    match_labels,
                    ..LabelSelector::default()
                }),
                storage_class_name,
                volume_mode,
                volume_attributes_class_name: None,
            }
        },
    )
}

fn claim() -> impl Strategy<Value = PersistentVolumeClaim> {
    let annotations = (
        prop::bool::weighted(0.8),
        weighted(0.1, text(&["n0", "n1"])),
    );
    let names = (text(&CLAIMS), text(&NAMESPACES), text(&UIDS));
    let phase = text(&["Pending", "Pending", "Bound", "Bound", "Lost"]);
    let ends = prop::bool::weighted(0.05);
    (names, claim_spec(), annotations, phase, ends).prop_map(
        |((name, namespace, uid), spec, (bound, selected), phase, ends)| {
            let bound = bound.then(|| ("pv.kubernetes.io/bind-completed", "yes".to_owned()));
            let selected = selected.map(|node| ("volume.kubernetes.io/selected-node", node));
            let annotations = bound.into_iter().chain(selected);
            PersistentVolumeClaim {
                metadata: Some(ObjectMeta {
                    name,
                    namespace,
                    uid,
                    deletion_timestamp: ends.then(pbjson_types::Timestamp::default),
                    annotations: annotations.map(|(k, v)| (k.to_owned(), v)).collect(),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
                status: Some(PersistentVolumeClaimStatus { phase }),
            }
        },
    )
}

fn affinity() -> impl Strategy<Value = NodeSelectorTerm> {
    let label = prop_oneof![
        (Just(ZONE), subsequence(vec!["za", "zb"], 1..=2)),
        (Just(HOSTNAME), subsequence(vec!["n0", "n1", "n2"], 1..=3)),
    ];
    let requirement = |key: &str, operator: &str, values: Vec<&str>| NodeSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.into_iter().map(str::to_owned).collect(),
    };
    // Volumes are found by one label: others may narrow the nodes further, or name none.
    let further = prop_oneof![
        (Just(ZONE), Just("In"), subsequence(vec!["za", "zb"], 1..=2)),
        (Just(ZONE), Just("NotIn"), Just(vec!["zb"])),
        (Just("rack"), Just("Exists"), Just(Vec::new())),
        (Just("rack"), Just("In"), Just(vec!["r0"])),
    ];
    let by_name = weighted(0.05, Just(("metadata.name", "In", vec!["n0"])));
    (weighted(0.85, label), weighted(0.3, further), by_name).prop_map(
        move |(label, further, by_name)| {
            let label = label.map(|(key, values)| (key, "In", values));
            let all = label.into_iter().chain(further);
            NodeSelectorTerm {
                match_expressions: all.map(|(k, o, v)| requirement(k, o, v)).collect(),
                match_fields: by_name
                    .map(|(k, o, v)| requirement(k, o, v))
                    .into_iter()
                    .collect(),
            }
        },
    )
}

fn volume() -> impl Strategy<Value = PersistentVolume> {
    let zone = (text(&[ZONE, BETA_ZONE]), text(&["za", "zb", "za__zb"]));
    let labels = (weighted(0.3, zone), weighted(0.3, text(&["a", "b"])));
    let claimed = weighted(0.3, (text(&CLAIMS), text(&["", "u1"])));
    let phase = text(&["Available", "Available", "Bound", "Released"]);
    let what = (
        size(),
        modes(),
        class(),
        weighted(0.6, vec(affinity(), 1..3)),
    );
    (text(&VOLUMES), labels, claimed, phase, what).prop_map(
        |(name, (zone, tier), claimed, phase, (size, access_modes, storage_class_name, terms))| {
            let tier = tier.map(|tier| ("tier".to_owned(), tier));
            PersistentVolume {
                metadata: Some(ObjectMeta {
                    name,
                    labels: zone.into_iter().chain(tier).collect(),
                    ..ObjectMeta::default()
                }),
                spec: Some(PersistentVolumeSpec {
                    capacity: [size].into(),
                    access_modes,
                    claim_ref: claimed.map(|(name, uid)| ClaimReference {
                        namespace: "default".into(),
                        name,
                        uid,
                    }),
                    storage_class_name,
                    node_affinity: terms.map(|node_selector_terms| VolumeNodeAffinity {
                        required: Some(NodeSelector {
                            node_selector_terms,
                        }),
                    }),
                    ..PersistentVolumeSpec::default()
                }),
                status: Some(PersistentVolumeStatus { phase }),
            }
        },
    )
}

fn storage_class() -> impl Strategy<Value = StorageClass> {
    let zones = subsequence(&["za", "zb"], 0..=2);
    (text(&CLASSES), weighted(0.4, zones), any::<bool>()).prop_map(|(name, zones, makes)| {
        let mode = match &*name {
            "now" => "Immediate",
            _ => "WaitForFirstConsumer",
        };
        let term = |zones: Vec<&str>| TopologySelectorTerm {
            match_label_expressions: vec![TopologySelectorLabelRequirement {
                key: ZONE.into(),
                values: zones.into_iter().map(str::to_owned).collect(),
            }],
        };
        StorageClass {
            provisioner: match makes && name != "local" {
                true => "csi.example.com".into(),
                false => "kubernetes.io/no-provisioner".into(),
            },
            metadata: Some(ObjectMeta {
                name,
                ..ObjectMeta::default()
            }),
            volume_binding_mode: Some(mode.into()),
            allowed_topologies: zones.map(term).into_iter().collect(),
        }
    })
}

/// A claim, a volume or a class.
pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => claim().prop_map(Stored::change),
        3 => volume().prop_map(Stored::change),
        2 => storage_class().prop_map(Stored::change),
    ]
}

/// The volumes of a pod: most have none.
pub fn volumes() -> impl Strategy<Value = Vec<Volume>> {
    let named = text(&CLAIMS).prop_map(|claim_name| VolumeSource {
        persistent_volume_claim: Some(ClaimSource { claim_name }),
        ..VolumeSource::default()
    });
    let made = (weighted(0.5, text(&CLAIMS)), claim_spec());
    let made = made.prop_map(|(claim, spec)| VolumeSource {
        persistent_volume_claim: claim.map(|claim_name| ClaimSource { claim_name }),
        ephemeral: Some(EphemeralSource {
            volume_claim_template: Some(ClaimTemplate { spec: Some(spec) }),
        }),
        ..VolumeSource::default()
    });
    let gce = (text(&["d0", "d1"]), any::<bool>()).prop_map(|(pd_name, read_only)| VolumeSource {
        gce_persistent_disk: Some(GcePersistentDiskSource { pd_name, read_only }),
        ..VolumeSource::default()
    });
    let monitors = subsequence(&["m0", "m1", "m2"], 1..=2);
    let rbd = (monitors, any::<bool>()).prop_map(|(monitors, read_only)| VolumeSource {
        rbd: Some(RbdSource {
            monitors: monitors.into_iter().map(str::to_owned).collect(),
            image: "i".into(),
            pool: "p".into(),
            read_only,
        }),
        ..VolumeSource::default()
    });
    let volume = prop_oneof![6 => named, 2 => made, 1 => gce, 1 => rbd];
    let volume = volume.prop_map(|source| Volume {
        name: "v".into(),
        volume_source: Some(source),
        ..Volume::default()
    });
    prop_oneof![4 => Just(Vec::new()), 1 => vec(volume, 1..4)]
}
