//! The hints about storage.

use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{Change, Pod};
use serde_json::{Value, json};
use support::model::Stored;

use super::Case;
use super::hints::{and, case, state};

/// Three nodes in zones a, b and c, and storage classes: of volumes that exist, of volumes that are
/// made in zone a, and of claims that are bound at once.
fn zones() -> Vec<Change> {
    let class = |name: &str, provisioner: &str, mode: &str, zone: Value| {
        json!({"storageClass": {
            "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
            "allowedTopologies": zone,
        }})
    };
    let zone = json!([{"matchLabelExpressions": [
        {"key": "topology.kubernetes.io/zone", "values": ["a"]},
    ]}]);
    let waits = "WaitForFirstConsumer";
    and(
        state(&[("a1", "a", 0), ("b1", "b", 0), ("c1", "c", 0)]),
        changes(json!([
            class("static", "kubernetes.io/no-provisioner", waits, json!([])),
            class("made", "p", waits, zone),
            class("now", "p", "Immediate", json!([])),
            json!({"storageClass": {"metadata": {"name": "odd"}, "provisioner": "p"}}),
        ])),
    )
}

fn changes(changes: Value) -> Vec<Change> {
    serde_json::from_value(changes).expect("changes")
}

/// A claim with this class and more in its spec, which is bound if that names a volume.
fn claim(class: &str, more: Value) -> Value {
    let mut spec = json!({"storageClassName": class, "accessModes": ["ReadWriteOnce"]});
    spec.as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    json!({"persistentVolumeClaim": {
        "metadata": {"name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": spec,
    }})
}

/// A volume of the class of existing volumes, which nodes of `zone` reach.
fn volume(labels: Value, zone: Option<&str>) -> Value {
    let term = |zone: &str| {
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ]}]}})
    };
    json!({"persistentVolume": {
        "metadata": {"name": "v", "labels": labels},
        "spec": {
            "storageClassName": "static", "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": zone.map(term),
        },
        "status": {"phase": "Available"},
    }})
}

/// A pod with a volume.
fn with(source: Value) -> Pod {
    let mut volume = source;
    volume["name"] = "v".into();
    let pod = json!({"metadata": {"name": "next"}, "spec": {"volumes": [volume]}});
    serde_json::from_value(pod).expect("a pod")
}

fn claiming() -> Pod {
    with(json!({"persistentVolumeClaim": {"claimName": "c"}}))
}

/// A pod that runs on a node and has a volume.
fn user(mut pod: Pod, node: &str) -> Change {
    pod.metadata.get_or_insert_default().name = "user".into();
    pod.spec.get_or_insert_default().node_name = node.into();
    pod.change()
}

/// Cases of storage that keeps the pod off nodes.
pub(super) fn cases() -> Vec<Case> {
    let says = |name, more: Value, pod: Pod, says| {
        case(name, and(zones(), changes(more)), pod, Kind::Volumes, says)
    };
    let disk = || with(json!({"gcePersistentDisk": {"pdName": "d"}}));
    let reading = || with(json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}}));
    let once = || {
        json!([claim(
            "static",
            json!({"accessModes": ["ReadWriteOncePod"]})
        )])
    };
    let bound = || claim("static", json!({"volumeName": "v"}));
    vec![
        says(
            "a claim that is not there",
            json!([]),
            claiming(),
            Some(&["persistentvolumeclaim \"c\" not found: no node takes it. Create the claim"]),
        ),
        says(
            "a claim that waits for nobody",
            json!([claim("now", json!({}))]),
            claiming(),
            Some(&[
                "pod has unbound immediate PersistentVolumeClaims: no node takes it. Bind its claim \
                 to a volume, or give the claim a class that makes volumes",
            ]),
        ),
        says(
            "a class without a mode",
            json!([claim("odd", json!({}))]),
            claiming(),
            Some(&["Give the class a volumeBindingMode"]),
        ),
        says(
            "a claim whose volume is gone",
            json!([bound()]),
            claiming(),
            Some(&[
                "persistentvolume \"v\" not found",
                "Create the volume, or bind the claim",
            ]),
        ),
        says(
            "a claim that is being deleted",
            {
                let mut claim = bound();
                let metadata = &mut claim["persistentVolumeClaim"]["metadata"];
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                json!([claim])
            },
            claiming(),
            Some(&[
                "persistentvolumeclaim \"c\" is being deleted",
                "Give it another claim",
            ]),
        ),
        says(
            "a claim that comes with the pod",
            json!([]),
            {
                let mut pod = with(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}));
                pod.metadata.get_or_insert_default().uid = "u".into();
                pod
            },
            Some(&[
                "waiting for ephemeral volume controller",
                "made soon after the pod",
            ]),
        ),
        case(
            "a disk that a pod uses",
            and(zones(), [user(reading(), "b1")]),
            disk(),
            Kind::Volumes,
            Some(&[
                "pods on 1 node (b1) use its disk d, and not all of them only read it: it fits there \
                 once these pods are gone",
            ]),
        ),
        case(
            "a disk that all only read",
            and(zones(), [user(reading(), "b1")]),
            reading(),
            Kind::Volumes,
            None,
        ),
        case(
            "a claim of another pod",
            and(and(zones(), changes(once())), [user(claiming(), "a1")]),
            claiming(),
            Kind::Volumes,
            Some(&[
                "its claim c is ReadWriteOncePod and another pod uses it: it fits once that pod is gone",
            ]),
        ),
        says(
            "a volume that few nodes reach",
            json!([volume(json!({}), Some("a")), bound()]),
            claiming(),
            Some(&[
                "its claim c is bound to the volume v, and its node affinity lets other nodes alone \
                 reach it: that refuses 2 nodes",
            ]),
        ),
        says(
            "a volume of other zones",
            json!([
                volume(json!({"topology.kubernetes.io/zone": "a__b"}), None),
                bound()
            ]),
            claiming(),
            Some(&["is bound to the volume v, and it is in a and b: that refuses 1 node"]),
        ),
        says(
            "volumes that few nodes reach",
            json!([volume(json!({}), Some("a")), claim("static", json!({}))]),
            claiming(),
            Some(&[
                "its claim c waits for a node, and 2 nodes (b1 and c1) neither reach an available \
                 volume that it could be bound to, nor may one be made there",
            ]),
        ),
        says(
            "volumes that are made in few zones",
            json!([claim("made", json!({}))]),
            claiming(),
            Some(&["2 nodes (b1 and c1)", "allowedTopologies of its class"]),
        ),
        says(
            "a volume that all nodes reach",
            json!([volume(json!({}), None), bound()]),
            claiming(),
            None,
        ),
    ]
}
