//! This version can read the logs that it writes and those that earlier releases wrote, and they mean the same.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::log::Log;
use evenkeel::matching::KubernetesVersion;
use evenkeel::proto::v1::Change;
use evenkeel::proto::v1::change::Object;
use evenkeel::snapshot::reserving::Assignment;
use evenkeel::snapshot::{Claim, Offer, ResourceVersions, Retryable, Snapshot};
use serde_json::json;
use support::fake_log::FakeLog;

use crate::simulation::alone::{Alone, offer, runtime};
use crate::simulation::holding::hold;
use crate::simulation::unclaimed::reserve;
use crate::simulation::wishes::{batch, node, pod};
use crate::simulation::world::{NAME, digest};

/// The directory of the logs, a file for each release that changed what is written. `GOLDEN=NAME`
/// writes the file of this version, which is never written again. There is none before the first
/// release.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/simulation/golden")
}

/// Makes a log with everything that records can say. Returns its messages and blobs as text.
fn record() -> String {
    let log = FakeLog::default();
    let server = Alone::on(&log, "golden");
    let update = |number| {
        server.put(number);
    };
    update(0);
    let versioned = Offer {
        version: KubernetesVersion::parse("1.36"),
        resource_versions: read(3),
        ..offer(1, None)
    };
    let updated = server.registry.update(NAME, versioned);
    updated.expect("it is applied");
    let others = Offer {
        batch: Arc::new(batch(objects_of_each_kind())),
        ..offer(1, None)
    };
    let updated = server.registry.update(NAME, others);
    updated.expect("it is applied");
    let request = |key| Retryable {
        key: [key; 32],
        question: [7; 32],
    };
    // These are reservations with and without a kept answer, a claim and a release.
    reserve(&server, None).expect("it is reserved");
    reserve(&server, Some(request(1))).expect("it is reserved");
    reserve(&server, Some(request(2))).expect("it is reserved");
    let snapshot = server.snapshot();
    let held = snapshot.reservations(0, "", 9);
    let claim = Claim {
        name: "claimed".into(),
        uid: "u".into(),
    };
    snapshot
        .confirm(vec![(held[0].id.clone(), claim)])
        .expect("it is held");
    snapshot
        .release(vec![held[1].id.clone()])
        .expect("it is held");
    // A caller has chosen the node of this pod itself.
    let assignment = Assignment {
        hold: hold(Duration::from_secs(3_600)),
        node: "n1".into(),
        claim: Claim {
            name: "decided".into(),
            uid: "d".into(),
        },
    };
    snapshot
        .assign(&[assignment], &Limits::default())
        .expect("there is room");
    // These are a replace, whose objects are in blobs, and a checkpoint.
    let mut staged = server.registry.stage(NAME).expect("there is room");
    let mut objects = objects_of_each_kind();
    objects.extend([node(0), node(2), pod("replaced", 2)]);
    let objects = batch(objects);
    staged
        .apply(&objects, None, &Limits::default())
        .expect("there is room");
    staged.read_up_to(&read(5)).expect("the same cluster");
    let arrived = server.registry.now().steady;
    let replaced = server.registry.replace(NAME, staged, (None, None), arrived);
    replaced.expect("it is applied");
    server.replica.checkpoint(NAME).expect("it is written");
    update(1);

    let mut text = String::new();
    for message in log.messages(NAME) {
        writeln!(text, "message {}", hex(&message.bytes)).expect("text has room");
    }
    let blobs = runtime().block_on(log.blobs().list(""));
    for blob in blobs.expect("nothing goes wrong") {
        let bytes = runtime().block_on(log.blobs().get(&blob));
        let bytes = bytes.expect("nothing goes wrong").expect("it is there");
        let bytes = hex(&bytes.0);
        writeln!(text, "blob {blob} {bytes}").expect("text has room");
    }
    writeln!(text, "digest {}", told(&snapshot)).expect("text has room");
    text
}

/// How far a feed has read.
fn read(version: u64) -> ResourceVersions {
    ResourceVersions::of_feed([("Pod".to_owned(), version)].into(), String::new())
}

/// A digest of all that decisions read of a snapshot, the pods that callers decided about, and how
/// far its feed has read.
fn told(snapshot: &Snapshot) -> String {
    let held = snapshot.reservations(0, "", usize::MAX);
    let decided = held.iter().filter(|it| !it.held.decided.is_empty());
    let decided = decided.map(|it| format!(" decided {}", it.held.decided));
    let read = snapshot.state().resource_versions().to_wire();
    let read = read.iter().map(|(kind, read)| format!(" {kind} {read}"));
    digest(snapshot) + &decided.chain(read).collect::<String>()
}

/// An object of each kind besides nodes, with all that decisions read of it.
fn objects_of_each_kind() -> Vec<Object> {
    let changes = json!([
        {"pod": {
            "metadata": {"name": "whole", "uid": "w", "labels": {"app": "web"}},
            "spec": {
                "nodeName": "n1", "priority": 7,
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}},
                    ]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}},
                    ]},
                },
                "containers": [{
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    "ports": [{"hostPort": 80}],
                }],
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "b", "rbd": {"image": "i", "monitors": ["m"]}},
                ],
            },
        }},
        {"service": {"metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}}},
        {"replicaSet": {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}},
        {"statefulSet": {"metadata": {"name": "t"}, "spec": {"selector": {"matchLabels": {"app": "db"}}}}},
        {"replicationController": {"metadata": {"name": "c"}, "spec": {"selector": {"app": "old"}}}},
        {"namespace": {"metadata": {"name": "default", "labels": {"team": "a"}}}},
        {"podDisruptionBudget": {"metadata": {"name": "b"}, "spec": {
            "minAvailable": 1, "selector": {"matchLabels": {"app": "web"}},
        }}},
        {"persistentVolumeClaim": {
            "metadata": {"name": "claim", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {
                "accessModes": ["ReadWriteOncePod"], "storageClassName": "disk", "volumeName": "v",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }},
        {"persistentVolume": {
            "metadata": {"name": "v", "labels": {"topology.kubernetes.io/zone": "a"}},
            "spec": {
                "accessModes": ["ReadWriteOncePod"], "storageClassName": "disk",
                "capacity": {"storage": "1Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                }]}},
            },
            "status": {"phase": "Bound"},
        }},
        {"storageClass": {
            "metadata": {"name": "disk"}, "provisioner": "p",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
        }},
    ]);
    let changes: Vec<Change> = serde_json::from_value(changes).expect("changes");
    let objects = changes.into_iter().map(|change| change.object);
    objects.map(|object| object.expect("an object")).collect()
}

/// Returns the log in a file, and the digest of the state that it leads to.
fn parse(text: &str) -> (FakeLog, String) {
    let log = FakeLog::default();
    let mut digest = None;
    for line in text.lines() {
        match line.split_once(' ').expect("a line has a kind") {
            ("message", bytes) => log.intrude(NAME, unhex(bytes).into()),
            ("blob", rest) => {
                let (name, bytes) = rest.split_once(' ').expect("a blob has a name");
                let put = runtime().block_on(log.blobs().set_if(name, None, unhex(bytes).into()));
                put.expect("nothing goes wrong");
            }
            ("digest", told) => digest = Some(told.to_owned()),
            (kind, _) => panic!("{kind} is no kind of line"),
        }
    }
    (log, digest.expect("there is a digest"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    pairs
        .map(|pair| byte(pair).expect("two digits of a byte"))
        .collect()
}

#[test]
fn logs_of_released_versions_come_to_the_same() {
    if let Ok(name) = std::env::var("GOLDEN") {
        let file = directory().join(name);
        assert!(!file.exists(), "{} is never written again", file.display());
        fs::create_dir_all(directory()).expect("it can be made");
        fs::write(file, record()).expect("it can be written");
    }
    let mut logs = vec![("this version".to_owned(), record())];
    for file in fs::read_dir(directory()).into_iter().flatten() {
        let path = file.expect("it can be listed").path();
        let text = fs::read_to_string(&path).expect("it is text");
        logs.push((path.display().to_string(), text));
    }
    for (version, text) in logs {
        let (log, expected) = parse(&text);
        let last = log.messages(NAME).len() as u64;
        let whole = Alone::on(&log, "whole");
        whole.follow();
        assert_eq!(told(&whole.snapshot()), expected, "{version}");
        // A server that reads only the checkpoint and the later records comes to the same.
        let trimmed = runtime().block_on(log.trim(NAME, last));
        trimmed.expect("it is there");
        let late = Alone::on(&log, "late");
        late.follow();
        assert_eq!(told(&late.snapshot()), expected, "{version}");
    }
}
