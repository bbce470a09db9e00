//! Pods with very many claims and disks, beside very many volumes: small questions beside them do not
//! wait, their memory stays small, and they end soon after their callers leave.

use std::time::Duration;

use evenkeel::proto::v1::{Change, Pod};
use serde_json::{Value, json};
use support::build::{filter_of, hold_of, place_of, update_of};
use tokio::time::timeout;

use crate::hostile::beside::Bystanders;
use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::request::{Client, client};
use crate::hostile::world::{LONGEST_MS, MEASURING, assert_not_held_up, fill};

const NODES: usize = 200;
const VOLUMES: usize = 20_000;

/// A caller that leaves waits at most this long for the answer to its next call.
const SOON: Duration = Duration::from_secs(2);

/// The most that one decision adds to the resident memory, with what the allocator returns a little later.
const MOST_BYTES: usize = 96 << 20;

fn pod(volumes: Vec<Value>) -> Pod {
    let pod = json!({"spec": {"volumes": volumes}});
    serde_json::from_value(pod).expect("a pod")
}

/// A volume of a pod by its number.
fn using(count: usize, source: impl Fn(usize) -> Value) -> Pod {
    let volume = |number| {
        let mut volume = source(number);
        volume["name"] = format!("v-{number}").into();
        volume
    };
    pod((0..count).map(volume).collect())
}

fn claims(count: usize) -> Pod {
    let claim = |number| json!({"persistentVolumeClaim": {"claimName": format!("c-{number}")}});
    using(count, claim)
}

fn of_class() -> Value {
    json!({
        "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    })
}

fn templates(count: usize) -> Pod {
    using(
        count,
        |_| json!({"ephemeral": {"volumeClaimTemplate": {"spec": of_class()}}}),
    )
}

/// A claim with a selector of 200 terms, and pods that use it.
fn long_selector() -> Pod {
    let term = |number| json!({"key": format!("k-{number}"), "operator": "DoesNotExist"});
    let mut spec = of_class();
    spec["selector"] = json!({"matchExpressions": (0..200).map(term).collect::<Vec<_>>()});
    let template = json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    using(1, |_| template.clone())
}

fn disks(count: usize) -> Pod {
    using(
        count,
        |number| json!({"gcePersistentDisk": {"pdName": format!("d-{number}"), "readOnly": true}}),
    )
}

async fn update(client: &mut Client, changes: Vec<Value>) {
    for changes in changes.chunks(5_000) {
        let changes: Vec<Change> = serde_json::from_value(changes.into()).expect("changes");
        let updated = client.update_snapshot(update_of(changes)).await;
        updated.expect("valid changes");
    }
}

/// A server on one thread, with volumes that no claim takes: half of them are local to some node, and
/// all are labelled as the long selector does not allow.
async fn server() -> Server {
    let server = Server::start(&["--threads", "1"]);
    let mut client = client(server.address());
    fill(&mut client, NODES).await;
    let class = json!({"storageClass": {
        "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }});
    let volume = |number: usize| {
        let zone =
            json!([{"key": "zone", "operator": "In", "values": [format!("zone-{}", number % 20)]}]);
        let mut spec = json!({
            "storageClassName": "local", "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
        });
        if number.is_multiple_of(2) {
            let terms = json!([{"matchExpressions": zone}]);
            spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        }
        json!({"persistentVolume": {
            "metadata": {"name": format!("pv-{number}"), "labels": {"k-199": "a"}},
            "status": {"phase": "Available"}, "spec": spec,
        }})
    };
    let claim = |number| {
        json!({"persistentVolumeClaim": {
            "metadata": {"name": format!("c-{number}")}, "spec": of_class(),
        }})
    };
    let all = [class].into_iter().chain((0..VOLUMES).map(volume));
    update(&mut client, all.chain((0..1_000).map(claim)).collect()).await;
    server
}

/// Has the system measure the most resident memory from now on.
fn forget_peak(server: &Server) {
    let file = format!("/proc/{}/clear_refs", server.id());
    std::fs::write(file, "5").expect("it is a process of this user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_beside_volumes_hold_up_nobody() {
    let _alone = MEASURING.lock().await;
    let server = server().await;
    let mut attacker = client(server.address());
    let questions = [
        ("1,000 claims", claims(1_000)),
        ("1,000 templates", templates(1_000)),
        ("five templates", templates(5)),
        ("a selector of 200 terms", long_selector()),
        ("20,000 disks", disks(20_000)),
    ];
    for (name, pod) in questions {
        forget_peak(&server);
        let before = server.peak_memory();
        let bystanders = Bystanders::start(server.address());
        let answer = timeout(DEADLINE, attacker.filter(filter_of(pod))).await;
        answer.expect(name).expect(name);
        assert_not_held_up(bystanders, name);
        let grown = server.peak_memory().saturating_sub(before);
        assert!(grown < MOST_BYTES, "{name}: {} MiB more", grown >> 20);
    }
}

/// Pods that use one image of Ceph, each by a monitor of its own and on one of many nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_pods_may_use_one_disk() {
    const PODS: usize = 12_000;
    let _alone = MEASURING.lock().await;
    let server = Server::start(&["--threads", "1"]);
    let mut attacker = client(server.address());
    fill(&mut attacker, NODES).await;
    let bystanders = Bystanders::start(server.address());
    let disk =
        |number| json!({"rbd": {"pool": "p", "image": "i", "monitors": [format!("m-{number}")]}});
    for first in (0..PODS).step_by(500) {
        let pod = |number| {
            json!({"pod": {
                "metadata": {"name": format!("p-{number}")},
                "spec": {
                    "nodeName": format!("node-{}", number % NODES),
                    "volumes": using(1, |_| disk(number)).spec.map(|spec| spec.volumes),
                },
            }})
        };
        update(&mut attacker, (first..first + 500).map(pod).collect()).await;
    }
    let answer = attacker.filter(filter_of(using(1, |_| disk(0)))).await;
    let answer = answer.expect("a valid question").into_inner();
    assert_eq!(answer.feasible_count, NODES as i64 - 1);
    let (health, _) = bystanders.stop();
    let longest = health.longest();
    assert!(longest < LONGEST_MS, "health waited {longest:.0} ms");
}

/// What a reservation holds is found once, however many claims it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_with_many_claims_is_no_burden() {
    let _alone = MEASURING.lock().await;
    let server = server().await;
    let mut attacker = client(server.address());
    let place = hold_of(templates(500), 1, Duration::from_secs(300));
    let placed = attacker.place(place).await.expect("there is room");
    assert_eq!(placed.into_inner().placements.len(), 1);
    let bystanders = Bystanders::start(server.address());
    let answer = timeout(SOON, attacker.filter(filter_of(claims(1)))).await;
    let answer = answer.expect("soon").expect("a valid question");
    assert_eq!(answer.into_inner().feasible_count, NODES as i64);
    let (health, _) = bystanders.stop();
    let longest = health.longest();
    assert!(longest < LONGEST_MS, "health waited {longest:.0} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placing_ends_when_its_caller_leaves() {
    let _alone = MEASURING.lock().await;
    let server = server().await;
    let mut attacker = client(server.address());
    for (name, pod) in [("disks", disks(90_000)), ("claims", claims(1_000))] {
        let place = attacker.place(place_of(pod, 1_000));
        drop(timeout(Duration::from_millis(1_000), place).await);
        let next = timeout(SOON, attacker.place(place_of(claims(1), 1))).await;
        next.expect(name).expect(name);
    }
}
