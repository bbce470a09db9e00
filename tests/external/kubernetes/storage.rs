//! Random storage of a cluster, as JSON, and stand-ins for controllers that do not run here: those
//! that bind claims and make volumes.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::kubernetes::api::{Api, path};
use crate::kubernetes::objects::{NAMESPACE, ZONE, one_in, pick};

/// The number of names of claims that pods choose from, and of volumes that are made for no claim.
const CLAIMS: usize = 16;
const VOLUMES: usize = 24;

/// The interval between two looks for claims that the scheduler wants bound.
const BIND_EVERY: Duration = Duration::from_millis(100);

const CLAIM: &str = "PersistentVolumeClaim";
const VOLUME: &str = "PersistentVolume";
const BOUND: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The storage classes: of volumes that exist, of volumes that are made, of volumes that are made
/// in some zones only, and of claims that are bound at once.
pub(crate) fn classes() -> impl Iterator<Item = Value> {
    let waits = "WaitForFirstConsumer";
    let narrow = json!([{ "matchLabelExpressions": [{ "key": ZONE, "values": ["a", "b"] }] }]);
    [
        ("static", "kubernetes.io/no-provisioner", waits, json!(null)),
        ("made", "example.com/disk", waits, json!(null)),
        ("narrow", "example.com/disk", waits, narrow),
        ("now", "example.com/disk", "Immediate", json!(null)),
    ]
    .into_iter()
    .map(|(name, provisioner, mode, topologies)| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": name }, "provisioner": provisioner,
            "volumeBindingMode": mode, "allowedTopologies": topologies,
        })
    })
}

/// The volumes that a pod uses, one or two.
pub(crate) fn volumes(rng: &mut Rng) -> Vec<Value> {
    let volume = |rng: &mut Rng, index: usize| {
        let mut volume = match rng.usize(..12) {
            0 => json!({ "gcePersistentDisk": { "pdName": disk(rng), "readOnly": rng.bool() } }),
            1 => json!({ "awsElasticBlockStore": { "volumeID": disk(rng) } }),
            2 => {
                json!({ "rbd": { "image": disk(rng), "monitors": ["m"], "readOnly": rng.bool() } })
            }
            3 => {
                json!({ "ephemeral": { "volumeClaimTemplate": { "spec": claim(rng, "")["spec"] } } })
            }
            _ => json!({ "persistentVolumeClaim": { "claimName": claim_name(rng) } }),
        };
        volume["name"] = format!("volume-{index}").into();
        volume
    };
    (0..rng.usize(1..3))
        .map(|index| volume(rng, index))
        .collect()
}

fn disk(rng: &mut Rng) -> &'static str {
    pick(rng, &["d0", "d1"])
}

fn claim_name(rng: &mut Rng) -> String {
    format!("claim-{:02}", rng.usize(..CLAIMS))
}

fn gibibytes(rng: &mut Rng) -> String {
    format!("{}Gi", rng.u32(1..4))
}

/// A claim that is not bound.
pub(crate) fn claim(rng: &mut Rng, name: &str) -> Value {
    let class = pick(rng, &["static", "static", "made", "narrow", "now", "gone"]);
    let mode = pick(rng, &["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"]);
    json!({
        "apiVersion": "v1", "kind": CLAIM, "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "accessModes": [mode], "storageClassName": class,
            "resources": { "requests": { "storage": gibibytes(rng) } },
        },
    })
}

/// A volume; most are for nodes of some zones.
fn volume(rng: &mut Rng, name: &str) -> Value {
    let modes = match one_in(rng, 3) {
        true => json!(["ReadWriteOncePod"]),
        false => json!(["ReadWriteOnce", "ReadOnlyMany"]),
    };
    let mut volume = json!({
        "apiVersion": "v1", "kind": VOLUME, "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": gibibytes(rng) }, "accessModes": modes,
            "storageClassName": pick(rng, &["static", "static", "made"]),
            "hostPath": { "path": "/none" },
        },
    });
    match rng.usize(..4) {
        0 => {
            let zones = pick(rng, &["a", "b__c"]);
            volume["metadata"]["labels"] = json!({ ZONE: zones });
        }
        1 => {}
        _ => volume["spec"]["nodeAffinity"] = in_zone(pick(rng, &["a", "b", "c"])),
    }
    volume
}

fn in_zone(zone: &str) -> Value {
    let expression = json!({ "key": ZONE, "operator": "In", "values": [zone] });
    json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } })
}

/// A volume that no node reaches. Nodes are refused for [`NOWHERE`].
pub(crate) fn volume_of_nowhere(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": VOLUME, "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "storageClassName": "static", "hostPath": { "path": "/none" },
            "nodeAffinity": in_zone("nowhere"),
        },
    })
}

pub(crate) const NOWHERE: &str = "node(s) didn't match PersistentVolume's node affinity";

/// A claim that is bound to the volume of the same name.
pub(crate) fn bound_claim(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": CLAIM,
        "metadata": { "name": name, "namespace": namespace, "annotations": { BOUND: "yes" } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "static", "volumeName": name,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    })
}

/// Makes or deletes a claim or a volume.
pub(crate) async fn change(api: &Api, rng: &mut Rng) {
    let (kind, name, at) = match rng.bool() {
        true => {
            let name = claim_name(rng);
            let at = path(CLAIM, NAMESPACE, &name);
            (CLAIM, name, at)
        }
        false => {
            let name = format!("volume-{:02}", rng.usize(..VOLUMES));
            let at = path(VOLUME, "", &name);
            (VOLUME, name, at)
        }
    };
    if let Some(object) = api.get(&at).await {
        api.delete(&at, 0).await;
        // Otherwise the object is being deleted for a while.
        if !one_in(rng, 4) {
            api.release(kind, &object).await;
        }
    } else if kind == CLAIM {
        make_claim(api, rng, &name).await;
    } else {
        let mut object = volume(rng, &name);
        if one_in(rng, 4) {
            object["spec"]["claimRef"] = json!({ "namespace": NAMESPACE, "name": claim_name(rng) });
        }
        api.create(&object).await;
        set_phase(api, &at, "Available").await;
    }
}

/// Makes a claim; some are bound, to a volume that exists or does not.
async fn make_claim(api: &Api, rng: &mut Rng, name: &str) {
    let mut object = claim(rng, name);
    if one_in(rng, 3) {
        let own = format!("of-{name}");
        object["metadata"]["annotations"] = json!({ BOUND: "yes" });
        object["spec"]["volumeName"] = own.clone().into();
        let at = path(VOLUME, "", &own);
        if api.get(&at).await.is_none() && !one_in(rng, 6) {
            api.create(&volume(rng, &own)).await;
            set_phase(api, &at, "Bound").await;
        }
    }
    api.create(&object).await;
    if one_in(rng, 12) {
        set_phase(api, &path(CLAIM, NAMESPACE, name), "Lost").await;
    }
}

async fn set_phase(api: &Api, at: &str, phase: &str) {
    let status = json!({ "status": { "phase": phase } });
    api.patch(&format!("{at}/status"), &status).await;
}

/// Binds claims to the volumes that the scheduler chose, and makes the volumes that it asks for,
/// without end.
pub(crate) async fn bind(api: &Api) {
    loop {
        for volume in api.list(VOLUME).await {
            let claim = &volume["spec"]["claimRef"];
            if claim["uid"].is_string() && volume["status"]["phase"] == "Available" {
                finish(api, claim, &volume["metadata"]["name"]).await;
            }
        }
        for claim in api.list(CLAIM).await {
            let metadata = &claim["metadata"];
            let node = metadata["annotations"][SELECTED_NODE].as_str();
            if let (Some(node), true) = (node, claim["spec"]["volumeName"].is_null()) {
                make_volume(api, &claim, node).await;
                finish(api, metadata, &made_name(metadata)).await;
            }
        }
        tokio::time::sleep(BIND_EVERY).await;
    }
}

/// The name of the volume that is made for a claim.
fn made_name(claim: &Value) -> Value {
    format!("made-{}", claim["uid"].as_str().expect("a uid")).into()
}

/// Makes the volume of a claim for the zone of a node.
async fn make_volume(api: &Api, claim: &Value, node: &str) {
    let metadata = &claim["metadata"];
    let own = json!({
        "apiVersion": "v1", "kind": CLAIM, "namespace": metadata["namespace"],
        "name": metadata["name"], "uid": metadata["uid"],
    });
    let node = api.get(&path("Node", "", node)).await;
    let zone = node.map(|node| node["metadata"]["labels"][ZONE].clone());
    let spec = &claim["spec"];
    api.create(&json!({
        "apiVersion": "v1", "kind": VOLUME, "metadata": { "name": made_name(metadata) },
        "spec": {
            "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"], "hostPath": { "path": "/none" },
            "claimRef": own, "nodeAffinity": zone.as_ref().and_then(Value::as_str).map(in_zone),
        },
    }))
    .await;
}

/// Marks a claim and a volume as bound to each other, unless the claim is bound to another volume.
async fn finish(api: &Api, claim: &Value, volume: &Value) {
    let text = |object: &Value, key: &str| object[key].as_str().expect("a name").to_owned();
    let volume_name = volume.as_str().expect("a name");
    let at = path(CLAIM, &text(claim, "namespace"), &text(claim, "name"));
    let bound = api
        .get(&at)
        .await
        .map(|it| it["spec"]["volumeName"].clone());
    if bound.is_some_and(|bound| !bound.is_null() && bound != *volume) {
        return;
    }
    set_phase(api, &path(VOLUME, "", volume_name), "Bound").await;
    let bound = json!({
        "metadata": { "annotations": { BOUND: "yes" } }, "spec": { "volumeName": volume },
    });
    api.patch(&at, &bound).await;
    set_phase(api, &at, "Bound").await;
}
