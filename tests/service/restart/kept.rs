//! Acknowledged objects are there after a restart, and lead to the same decisions.

use std::time::Duration;

use evenkeel::proto::v1::{
    Change, ExportSnapshotResponse, FilterRequest, FilterResponse, HeldPlacement, Mode,
    ScoreResponse, Snapshot, UpdateSnapshotRequest, View,
};
use tonic::Code;

use crate::restart::home::Home;
use crate::restart::process::{Server, eventually};
use support::build::{
    ZONE, confirm_of, cordoned, defaults_of, filter_of, hard, hold_of, node, on, pod, release_of,
    replace_of, score_as, service, soft, spread, tainted, update_of, with_claim, zones,
};
use support::model::{Stored, delete, delete_uid};
use support::refusal::code;

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
async fn live(server: &Server) {
    let mut changes = zones(&["a", "b", "c", "d"]);
    changes.push(tainted(node("e", &[(ZONE, "a")]), "k", "v", "NoSchedule").change());
    changes.push(cordoned(node("f", &[(ZONE, "b")])).change());
    changes.push(service("web", &WEB).change());
    server
        .send(UpdateSnapshotRequest {
            kubernetes_version: "1.36".into(),
            resource_versions: READ.map(|(kind, read)| (kind.to_owned(), read)).into(),
            cluster: "uid-of-a-cluster".into(),
            default_constraints: Some(defaults_of(vec![hard(2, ZONE, &[])])),
            ..update_of(changes)
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
    let old = vec![node("old", &[(ZONE, "z")]).change()];
    server.update("replaced", old).await;
    let new = vec![node("new", &[(ZONE, "z")]).change(), asking("p", "new", "")];
    server.send(replace_of("replaced", new)).await;
    server
        .update("deleted", vec![node("x", &[]).change()])
        .await;
    server.delete("deleted").await;
}

/// Makes four reservations: one stays as it is, one is confirmed, one is released, and a pod takes
/// over one.
async fn reserve_some(server: &Server) {
    let template = spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)]);
    let request = hold_of(template, 4, Duration::from_secs(3_000));
    let placed = server.place(request).await;
    let ids: Vec<String> = placed
        .placements
        .iter()
        .map(|p| p.reservation_id.clone())
        .collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| !id.is_empty()));
    let mut both = confirm_of(&ids[1], "web-1", "");
    let other = confirm_of(&ids[3], "web-3", "");
    both.confirmations.extend(other.confirmations);
    let confirmed = server.confirm_reservations(both).await;
    assert!(confirmed.unknown_ids.is_empty());
    let release = release_of(vec![ids[2].clone()]);
    server.release_reservations(release).await;
    let arrived = on(pod("web-3", &WEB), &placed.placements[3].node);
    server.update("", vec![arrived.change()]).await;
}

fn asking(name: &str, on_node: &str, uid: &str) -> Change {
    let mut pod = spread(pod(name, &WEB), vec![soft(1, ZONE, &WEB)]);
    pod.metadata.get_or_insert_default().uid = uid.into();
    on(pod, on_node).change()
}

async fn see(server: &Server) -> Seen {
    let mut snapshots = Vec::new();
    let mut exports = Vec::new();
    for name in ["default", "replaced", "deleted"] {
        let described = server.find(name).await;
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
        filters.push(server.filter(filter.clone()).await);
        scores.push(server.score(score_as(filter)).await);
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
async fn goes_on(server: &Server, before: &Seen, case: &str) {
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
    let refused = server.client().update_snapshot(stale).await;
    assert_eq!(code(refused), Code::Aborted);
    let next = server
        .send(UpdateSnapshotRequest {
            expected_revision: Some(default.revision),
            ..update_of(vec![node("next", &[(ZONE, "a")]).change()])
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
    let request = hold_of(pod("", &WEB), 1, Duration::from_secs(60));
    let placed = server.place(request).await;
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
    for ttl in [Duration::from_millis(1), Duration::from_secs(3_000)] {
        first.place(hold_of(pod("", &WEB), 1, ttl)).await;
    }
    let before = first.describe("").await;
    first.kill().await;

    let second = home.start(&[]);
    let one_is_left = async || {
        let now = second.describe("").await;
        (now.reservation_count == 1).then_some(now)
    };
    let after = eventually("one reservation is left", one_is_left).await;
    assert!(after.revision >= before.revision, "{after:?}");
    second.kill().await;
    // The reservation that has ended stays so, and no revision is used twice.
    let third = home.start(&[]);
    let again = third.describe("").await;
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
        synced.push(server.describe("").await.synced);
        server
            .send(UpdateSnapshotRequest {
                mode: mode.into(),
                ..update_of(vec![node("a", &[]).change()])
            })
            .await;
        server.kill().await;
    }
    assert_eq!(synced, [false, false, true]);
}
