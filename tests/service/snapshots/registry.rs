//! Many snapshots: side by side, listed in pages, forgotten, and moved from
//! one server to another.

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, CommitReplace, DeleteSnapshotRequest, DescribeSpreadRequest, ListNodesRequest,
    ListReservationsRequest, ListSnapshotsRequest, Snapshot, UpdateSnapshotRequest,
};
use proptest::prelude::*;
use tonic::{Code, Status};

use crate::snapshots::{all_nodes, nodes};
use support::agree::{self, Question};
use support::history::cases;
use support::recount::Cluster;
use support::refusal::{code, fields};
use support::server::Server;
use support::{generate, model};

async fn page(server: &Server, page_size: i32, page_token: &str) -> (Vec<String>, String) {
    let request = ListSnapshotsRequest {
        page_size,
        page_token: page_token.into(),
    };
    let answer = server.list_snapshots(request).await;
    let names = answer.snapshots.into_iter().map(|s| s.name);
    (names.collect(), answer.next_page_token)
}

#[tokio::test]
async fn snapshots_do_not_know_of_each_other() {
    let server = Server::start().await;
    for name in ["eu/prod", "eu/test", "us.prod", "default"] {
        server.update(name, nodes(&[&name.replace('/', "-")])).await;
    }
    server.update("eu/prod", nodes(&["more"])).await;
    assert_eq!(
        server.filter(all_nodes("eu/prod")).await.feasible,
        ["eu-prod", "more"]
    );
    assert_eq!(
        server.filter(all_nodes("eu/test")).await.feasible,
        ["eu-test"]
    );
    assert_eq!(server.filter(all_nodes("")).await.feasible, ["default"]);
    let prod = server.describe("eu/prod").await;
    let test = server.describe("eu/test").await;
    assert_eq!((prod.revision, test.revision), (2, 1));
    assert_ne!(prod.epoch, test.epoch);
}

#[tokio::test]
async fn list_in_pages() {
    let server = Server::start().await;
    for name in ["c", "a", "e", "b", "d"] {
        server.update(name, Vec::new()).await;
    }
    let (first, token) = page(&server, 2, "").await;
    assert_eq!(first, ["a", "b"]);
    let (second, token) = page(&server, 2, &token).await;
    assert_eq!(second, ["c", "d"]);
    let (third, token) = page(&server, 2, &token).await;
    assert_eq!((third, token.as_str()), (vec!["e".into()], ""));
    let (all, token) = page(&server, 0, "").await;
    assert_eq!((all.join(""), token.as_str()), ("abcde".into(), ""));
    let (exact, token) = page(&server, 5, "").await;
    assert_eq!((exact.len(), token.as_str()), (5, ""));
    let (more, _) = page(&server, 100_000, "").await;
    assert_eq!(more.len(), 5);
}

#[tokio::test]
async fn description() {
    let server = Server::start().await;
    server.update("s", nodes(&["a"])).await;
    let before: Snapshot = server.describe("s").await;
    assert_eq!((before.name.as_str(), before.synced), ("s", true));
    assert!(before.create_time.is_some());
    assert!(before.update_time.is_some());
    server.update("s", nodes(&["b"])).await;
    let after = server.describe("s").await;
    assert_eq!(after.create_time, before.create_time);
    assert_eq!((after.node_count, after.reservation_count), (2, 0));
}

#[tokio::test]
async fn deleted_snapshot_starts_over() {
    let server = Server::start().await;
    let epoch = server.update("s", nodes(&["a"])).await.epoch;
    let delete = async |epoch: &str| {
        let request = DeleteSnapshotRequest {
            snapshot: "s".into(),
            epoch: epoch.into(),
        };
        code(server.client().delete_snapshot(request).await)
    };
    assert_eq!(delete("another").await, Code::Aborted);
    assert_eq!(server.filter(all_nodes("s")).await.feasible, ["a"]);
    assert_eq!(delete(&epoch).await, Code::Ok);
    let gone = server.client().filter(all_nodes("s")).await;
    assert_eq!([code(gone), delete("").await], [Code::NotFound; 2]);
    let anew = server.update("s", nodes(&["b"])).await;
    assert_eq!(anew.revision, 1);
    assert_ne!(anew.epoch, epoch);
    assert_eq!(server.filter(all_nodes("s")).await.feasible, ["b"]);
}

/// The updates of an export, without the epoch and the revision, which differ from server to
/// server.
async fn content(server: &Server, snapshot: &str) -> Vec<UpdateSnapshotRequest> {
    let parts = server.export(snapshot).await;
    let described = server.describe(snapshot).await;
    for part in &parts {
        assert_eq!(part.revision, described.revision);
        assert_eq!(part.epoch, described.epoch);
    }
    let updates = parts
        .into_iter()
        .map(|part| part.update.expect("an update"));
    updates.collect()
}

/// Sends an export back between the markers of a replace.
async fn restore(server: &Server, snapshot: &str, content: &[UpdateSnapshotRequest]) {
    let mut steps = vec![Step::BeginReplace(BeginReplace {
        snapshot: snapshot.into(),
    })];
    steps.extend(content.iter().cloned().map(Step::Update));
    steps.push(Step::CommitReplace(CommitReplace {
        snapshot: snapshot.into(),
        expected_revision: None,
    }));
    let count = steps.len();
    let mut answers = server.stream(steps).await;
    for _ in 0..count {
        let answer = answers.message().await.expect("it is valid");
        answer.expect("an acknowledgement");
    }
}

proptest! {
    #![proptest_config(cases(24))]

    /// Whatever is in it, a restored snapshot exports the same and decides
    /// the same.
    #[test]
    fn export_restores_elsewhere(
        changes in generate::batch(40),
        defaults in generate::defaults(),
        pod in generate::incoming::pod(),
    ) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let cluster = Cluster { defaults: defaults.clone(), ..model::cluster(&changes) };
            let (here, there) = (Server::start().await, Server::start().await);
            here.replace("s", changes, defaults).await;
            there.update("s", nodes(&["stale"])).await;
            let exported = content(&here, "s").await;
            restore(&there, "s", &exported).await;
            prop_assert_eq!(content(&there, "s").await, exported);
            let about = Question { cluster: &cluster, pod: &pod, place: "restored" };
            agree::decisions(&there, "s", &about).await;
            Ok(())
        })?;
    }
}

/// An export of many objects comes in several parts, all of one revision.
#[tokio::test]
async fn large_export() {
    let server = Server::start().await;
    let names: Vec<String> = (0..30_000).map(|i| format!("node-{i:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    server.update("s", nodes(&names)).await;
    let exported = content(&server, "s").await;
    let changes: usize = exported.iter().map(|part| part.changes.len()).sum();
    assert_eq!(changes, names.len());
    restore(
        &server,
        "copy",
        &exported
            .iter()
            .cloned()
            .map(|update| UpdateSnapshotRequest {
                snapshot: "copy".into(),
                ..update
            })
            .collect::<Vec<_>>(),
    )
    .await;
    assert_eq!(server.describe("copy").await.node_count, 30_000);
}

/// The field that a refusal names.
fn named<T: std::fmt::Debug>(refused: Result<T, Status>) -> String {
    let status = refused.expect_err("it is refused");
    assert_eq!(status.code(), Code::InvalidArgument);
    fields(&status).remove(0)
}

#[tokio::test]
async fn a_token_is_of_one_list() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server.update(name, nodes(&["x", "y"])).await;
    }
    let mut client = server.client();
    let (_, of_snapshots) = page(&server, 1, "").await;
    let nodes = |snapshot: &str, page_token: &str| ListNodesRequest {
        snapshot: snapshot.into(),
        page_size: 1,
        page_token: page_token.into(),
        ..Default::default()
    };
    let of_nodes = server.list_nodes(nodes("a", "")).await.next_page_token;
    let next = server.list_nodes(nodes("a", &of_nodes)).await;
    assert_eq!(next.names, ["y"]);

    // A token of another list, of the same list of another snapshot, changed, cut, and made up.
    let changed = format!("{of_nodes}z");
    for token in [&of_snapshots, &changed, &of_nodes[1..], "x", "1"] {
        assert_eq!(
            named(client.list_nodes(nodes("a", token)).await),
            "pageToken"
        );
    }
    assert_eq!(
        named(client.list_nodes(nodes("b", &of_nodes)).await),
        "pageToken"
    );
    for page_token in [&of_nodes, "a"] {
        let request = ListSnapshotsRequest {
            page_token: page_token.into(),
            ..Default::default()
        };
        assert_eq!(named(client.list_snapshots(request).await), "pageToken");
        let request = ListReservationsRequest {
            page_token: page_token.into(),
            ..Default::default()
        };
        server.update("", Vec::new()).await;
        assert_eq!(named(client.list_reservations(request).await), "pageToken");
        let request = DescribeSpreadRequest {
            page_token: page_token.into(),
            ..Default::default()
        };
        assert_eq!(named(client.describe_spread(request).await), "pageToken");
    }
}

#[tokio::test]
async fn a_page_without_a_size_is_as_large_as_a_page_may_be() {
    let server = Server::start().await;
    for number in 0..101 {
        server.update(&format!("s{number}"), Vec::new()).await;
    }
    let (all, token) = page(&server, 0, "").await;
    assert_eq!((all.len(), &*token), (101, ""));
}
