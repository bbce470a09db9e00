//! Acknowledged objects are there after a restart, and lead to the same decisions.

use std::time::Duration;

use evenkeel::proto::v1::{
    Change, ConfirmReservationsRequest, Confirmation, DeleteSnapshotRequest,
    ExportSnapshotResponse, FilterRequest, FilterResponse, HeldPlacement, Mode,
    ReleaseReservationsRequest, ReservedPod, ScoreResponse, Snapshot, UpdateSnapshotRequest, View,
};
use tonic::Code;

use crate::restart::home::{Home, Running, reserve};
use support::build::{
    ZONE, cordoned, defaults_of, filter_of, hard, node, on, pod, score_as, service, soft, spread,
    tainted, with_claim,
};
use support::model::{Stored, delete, delete_uid};

const WEB: [(&str, &str); 1] = [("app", "web")];

/// How far the feed has read. It has read all storage, of which there is none.
const READ: [(&str, u64); 5] = [
    ("Pod", 7),
    ("Node", 9),
    ("PersistentVolumeClaim", 0),
    ("PersistentVolume", 0),
    ("StorageClass", 0),
];

/// The end of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Killed,
    Stopped,
}

/// All that can be seen of a server's snapshots.
#[derive(Debug, PartialEq)]
struct Seen {
    snapshots: Vec<Option<Snapshot>>,
    exports: Vec<ExportSnapshotResponse>,
    held: Vec<HeldPlacement>,
    filters: Vec<FilterResponse>,
    scores: Vec<ScoreResponse>,
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_a_restart() {
    let cases = [
        ("relaxed", End::Killed),
        ("relaxed", End::Stopped),
        ("full", End::Killed),
        ("none", End::Stopped),
    ];
    for (durability, end) in cases {
        let home = Home::new();
        let flags = ["--durability", durability];
        let first = home.start(&flags);
        live(&first).await;
        let before = see(&first).await;
        match end {
            End::Killed => first.kill().await,
            End::Stopped => first.stop().await,
        }

        let second = home.start(&flags);
        let case = format!("{durability}, {end:?}");
        assert_eq!(see(&second).await, before, "{case}");
        goes_on(&second, &before, &case).await;
    }
}

/// Makes a change of each kind.
async fn live(server: &Running) {
    let nodes = ["a", "b", "c", "d"];
    let mut changes = nodes
        .map(|name| node(name, &[(ZONE, name)]).change())
        .to_vec();
    changes.push(tainted(node("e", &[(ZONE, "a")]), "k", "v", "NoSchedule").change());
    changes.push(cordoned(node("f", &[(ZONE, "b")])).change());
    changes.push(service("web", &WEB).change());
    server
        .send(UpdateSnapshotRequest {
            changes,
            kubernetes_version: "1.36".into(),
            resource_versions: READ.map(|(kind, read)| (kind.to_owned(), read)).into(),
            cluster: "uid-of-a-cluster".into(),
            default_constraints: Some(defaults_of(vec![hard(2, ZONE, &[])])),
            ..Default::default()
        })
        .await;
    let pods = vec![
        asking("p1", "a", "u1"),
        asking("p2", "b", "u2"),
        asking("p3", "b", "u3"),
        asking("gone", "c", "u4"),
        asking("kept", "c", "u5"),
    ];
    server.update("", pods).await;
    let ends = vec![
        delete_uid("Pod", "default", "gone", "u4"),
        delete_uid("Pod", "default", "kept", "another"),
        delete("Node", "", "d"),
    ];
    server.update("", ends).await;
    reserve_some(server).await;

    // This replace is in one message. A replace in parts would be the same entry.
    let request = |mode: Mode, changes| UpdateSnapshotRequest {
        snapshot: "replaced".into(),
        changes,
        mode: mode.into(),
        ..Default::default()
    };
    let old = vec![node("old", &[(ZONE, "z")]).change()];
    server.send(request(Mode::Unspecified, old)).await;
    let new = vec![node("new", &[(ZONE, "z")]).change(), asking("p", "new", "")];
    server.send(request(Mode::Replace, new)).await;
    server
        .update("deleted", vec![node("x", &[]).change()])
        .await;
    let delete = DeleteSnapshotRequest {
        snapshot: "deleted".into(),
        epoch: String::new(),
    };
    let deleted = server.client.clone().delete_snapshot(delete).await;
    deleted.expect("it exists");
}

/// Makes four reservations: one stays as it is, one is confirmed, one is released, and a pod takes
/// over one.
async fn reserve_some(server: &Running) {
    let mut client = server.client.clone();
    let template = spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)]);
    let placed = client.place(reserve(template, 4, Duration::from_secs(3_000)));
    let placed = placed.await.expect("a valid request").into_inner();
    let ids: Vec<String> = placed
        .placements
        .iter()
        .map(|p| p.reservation_id.clone())
        .collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| !id.is_empty()));
    let confirm = |id: &str, name: &str| Confirmation {
        id: id.to_owned(),
        pod: Some(ReservedPod {
            name: name.into(),
            uid: String::new(),
        }),
    };
    let confirmed = client.confirm_reservations(ConfirmReservationsRequest {
        snapshot: String::new(),
        confirmations: vec![confirm(&ids[1], "web-1"), confirm(&ids[3], "web-3")],
    });
    let confirmed = confirmed.await.expect("a valid request").into_inner();
    assert!(confirmed.unknown_ids.is_empty());
    let released = client.release_reservations(ReleaseReservationsRequest {
        snapshot: String::new(),
        ids: vec![ids[2].clone()],
    });
    released.await.expect("it is live");
    let arrived = on(pod("web-3", &WEB), &placed.placements[3].node);
    server.update("", vec![arrived.change()]).await;
}

fn asking(name: &str, on_node: &str, uid: &str) -> Change {
    let mut pod = spread(pod(name, &WEB), vec![soft(1, ZONE, &WEB)]);
    pod.metadata.get_or_insert_default().uid = uid.into();
    on(pod, on_node).change()
}

async fn see(server: &Running) -> Seen {
    let mut snapshots = Vec::new();
    let mut exports = Vec::new();
    for name in ["default", "replaced", "deleted"] {
        let described = server.describe(name).await;
        if described.is_some() {
            exports.extend(server.export(name).await);
        }
        snapshots.push(described);
    }
    let (mut filters, mut scores) = (Vec::new(), Vec::new());
    let asked = [
        pod("", &WEB),
        spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)]),
        spread(pod("", &WEB), vec![soft(1, ZONE, &WEB)]),
        with_claim(pod("", &WEB), "x"),
    ];
    for pod in asked {
        let filter = FilterRequest {
            view: View::Full.into(),
            ..filter_of(pod)
        };
        let score = score_as(filter.clone());
        let mut client = server.client.clone();
        let answer = client.filter(filter).await.expect("it is answered");
        filters.push(answer.into_inner());
        let answer = client.score(score).await.expect("it is answered");
        scores.push(answer.into_inner());
    }
    Seen {
        snapshots,
        exports,
        held: server.held().await.into_values().collect(),
        filters,
        scores,
    }
}

/// Checks that revisions, epochs and ids of reservations continue.
async fn goes_on(server: &Running, before: &Seen, case: &str) {
    assert_eq!(
        before.filters[3].feasible_count, 0,
        "{case}: no claim is there"
    );
    let [Some(default), Some(_), None] = &before.snapshots[..] else {
        panic!("{case}: {:?}", before.snapshots);
    };
    assert_eq!((default.pod_count, default.node_count), (5, 5), "{case}");
    let stale = UpdateSnapshotRequest {
        expected_revision: Some(default.revision - 1),
        ..Default::default()
    };
    let refused = server.client.clone().update_snapshot(stale).await;
    assert_eq!(refused.expect_err("it is stale").code(), Code::Aborted);
    let next = server
        .send(UpdateSnapshotRequest {
            changes: vec![node("next", &[(ZONE, "a")]).change()],
            expected_revision: Some(default.revision),
            ..Default::default()
        })
        .await;
    assert_eq!(
        (next.revision, &next.epoch),
        (default.revision + 1, &default.epoch),
        "{case}"
    );
    // The confirmed reservation is taken over by its pod, and a new reservation has a new id.
    assert_eq!(before.held.len(), 2, "{case}");
    let node = before.held[1].node.clone();
    let arrived = on(pod("web-1", &WEB), &node).change();
    server.update("", vec![arrived]).await;
    assert_eq!(server.held().await.len(), 1, "{case}");
    let template = reserve(pod("", &WEB), 1, Duration::from_secs(60));
    let placed = server.client.clone().place(template).await;
    let placed = placed.expect("a valid request").into_inner();
    let id = &placed.placements[0].reservation_id;
    assert!(id.ends_with("-5"), "{case}: {id}");
}

#[tokio::test]
async fn a_killed_server_that_buffers_begins_a_new_epoch() {
    let home = Home::new();
    let flags = ["--durability", "none"];
    let first = home.start(&flags);
    let sent = first.update("", vec![node("a", &[]).change()]).await;
    first.kill().await;

    let second = home.start(&flags);
    let sent_again = second.update("", vec![node("a", &[]).change()]).await;
    assert_ne!(sent.epoch, sent_again.epoch);
}

#[tokio::test]
async fn reservations_end_while_no_server_runs() {
    let home = Home::new();
    let first = home.start(&[]);
    first
        .update("", vec![node("a", &[(ZONE, "z")]).change()])
        .await;
    let mut client = first.client.clone();
    for ttl in [Duration::from_millis(1), Duration::from_secs(3_000)] {
        let placed = client.place(reserve(pod("", &WEB), 1, ttl)).await;
        placed.expect("a valid request");
    }
    let before = first.describe("").await.expect("it exists");
    first.kill().await;

    let second = home.start(&[]);
    let after = loop {
        let after = second.describe("").await.expect("it exists");
        if after.reservation_count == 1 {
            break after;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(after.revision >= before.revision, "{after:?}");
    second.kill().await;
    // The reservation that has ended stays so, and no revision is used twice.
    let third = home.start(&[]);
    let again = third.describe("").await.expect("it exists");
    assert_eq!(again.reservation_count, 1);
    let next = third.update("", Vec::new()).await;
    assert_eq!(next.revision, again.revision + 1);
}

#[tokio::test]
async fn an_expected_snapshot_is_ready_once_it_was_replaced() {
    let home = Home::new();
    let flags = ["--expect-snapshot", "default"];
    let mut synced = Vec::new();
    for mode in [Mode::Unspecified, Mode::Replace, Mode::Unspecified] {
        let server = home.start(&flags);
        let before = server.describe("").await.expect("it is expected");
        synced.push(before.synced);
        server
            .send(UpdateSnapshotRequest {
                changes: vec![node("a", &[]).change()],
                mode: mode.into(),
                ..Default::default()
            })
            .await;
        server.kill().await;
    }
    assert_eq!(synced, [false, false, true]);
}
