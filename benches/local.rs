//! Nodes, volumes of one class and claims that wait.

use std::collections::BTreeMap;

use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;

const HOST: &str = "kubernetes.io/hostname";
const CLASS: &str = "local";

fn named(name: String) -> v1::ObjectMeta {
    v1::ObjectMeta {
        name,
        ..Default::default()
    }
}

fn size(gib: usize) -> BTreeMap<String, v1::Quantity> {
    let string = format!("{gib}Gi");
    [("storage".to_owned(), v1::Quantity { string })].into()
}

/// A node with its host name and a zone.
pub fn node(i: usize) -> Object {
    let labels = [
        (HOST, format!("node-{i}")),
        ("topology.kubernetes.io/zone", format!("zone-{}", i % 10)),
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value));
    Object::Node(v1::Node {
        metadata: Some(v1::ObjectMeta {
            labels: labels.into(),
            ..named(format!("node-{i}"))
        }),
        ..Default::default()
    })
}

/// A class whose volumes exist.
pub fn class() -> Object {
    Object::StorageClass(v1::StorageClass {
        metadata: Some(named(CLASS.to_owned())),
        provisioner: "kubernetes.io/no-provisioner".to_owned(),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        ..Default::default()
    })
}

/// A volume of one of `nodes` nodes, or one that all nodes reach.
pub fn volume(i: usize, nodes: usize, is_local: bool) -> Object {
    let requirement = v1::NodeSelectorRequirement {
        key: HOST.to_owned(),
        operator: "In".to_owned(),
        values: vec![format!("node-{}", i % nodes)],
    };
    let term = v1::NodeSelectorTerm {
        match_expressions: vec![requirement],
        ..Default::default()
    };
    let required = v1::NodeSelector {
        node_selector_terms: vec![term],
    };
    Object::PersistentVolume(v1::PersistentVolume {
        metadata: Some(named(format!("volume-{i}"))),
        spec: Some(v1::PersistentVolumeSpec {
            capacity: size(10 + i % 7),
            access_modes: vec!["ReadWriteOnce".to_owned()],
            storage_class_name: CLASS.to_owned(),
            node_affinity: is_local.then_some(v1::VolumeNodeAffinity {
                required: Some(required),
            }),
            ..Default::default()
        }),
        status: Some(v1::PersistentVolumeStatus {
            phase: "Available".to_owned(),
        }),
    })
}

/// A claim that waits, whose selector has so many terms.
pub fn claim(i: usize, terms: usize) -> Object {
    let term = |i| v1::LabelSelectorRequirement {
        key: format!("key-{i}"),
        operator: "DoesNotExist".to_owned(),
        values: Vec::new(),
    };
    Object::PersistentVolumeClaim(v1::PersistentVolumeClaim {
        metadata: Some(v1::ObjectMeta {
            namespace: "default".to_owned(),
            ..named(format!("claim-{i}"))
        }),
        spec: Some(v1::PersistentVolumeClaimSpec {
            access_modes: vec!["ReadWriteOnce".to_owned()],
            resources: Some(v1::ResourceRequirements { requests: size(10) }),
            storage_class_name: Some(CLASS.to_owned()),
            selector: (terms > 0).then(|| v1::LabelSelector {
                match_expressions: (0..terms).map(term).collect(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        status: None,
    })
}

/// A pod that uses the first claims.
pub fn pod(claims: usize) -> v1::Pod {
    let volume = |i| v1::Volume {
        name: format!("data-{i}"),
        volume_source: Some(v1::VolumeSource {
            persistent_volume_claim: Some(v1::ClaimSource {
                claim_name: format!("claim-{i}"),
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    v1::Pod {
        metadata: Some(named(String::new())),
        spec: Some(v1::PodSpec {
            volumes: (0..claims).map(volume).collect(),
            ..Default::default()
        }),
        status: None,
    }
}
