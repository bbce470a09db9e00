//! Limits of a running server: each refuses with its name, and none stops a
//! health probe.

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{FilterRequest, Pod, UpdateSnapshotRequest};
use support::build::{filter_of, plain_node, pod, update_of};
use support::model::{Stored, delete_uid};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::serving::process::Server;

/// Asserts that `status` is the refusal of one limit.
#[track_caller]
pub(crate) fn assert_over(limit: &str, status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains(limit), "{status}");
    let info = status.get_details_error_info();
    let info = info.expect("all errors have one");
    assert_eq!(info.domain, "evenkeel");
    assert_eq!(info.reason, "OVER_LIMIT");
    assert_eq!(info.metadata.get("limit").map(String::as_str), Some(limit));
}

/// A call that holds its slot until it is dropped: it waits for a revision that
/// does not come.
pub(crate) async fn waiting(server: &Server) -> JoinHandle<()> {
    server.update("", Vec::new()).await;
    let mut client = server.another_client();
    let question = FilterRequest {
        min_revision: 1_000,
        ..filter_of(Pod::default())
    };
    // The call is refused for as long as another call has the only slot.
    tokio::spawn(async move {
        while client.filter(question.clone()).await.is_err() {
            sleep(std::time::Duration::from_millis(5)).await;
        }
    })
}

/// A valid update of `count` thousand bytes and a little more: deletions of nodes that do not
/// exist.
pub(crate) fn update(count: usize) -> UpdateSnapshotRequest {
    let uid = "u".repeat(1_000);
    let deletion = |number| delete_uid("Node", "", &format!("node-{number}"), &uid);
    update_of((0..count).map(deletion).collect())
}

#[tokio::test]
async fn a_message_may_be_larger_than_grpc_allows_by_default() {
    let server = Server::start(&[]);
    server.send(update(5_000)).await;
}

#[tokio::test]
async fn a_step_over_the_message_limit_is_refused_by_name() {
    let server = Server::start(&["--max-message-bytes", "65536"]);
    let steps = [60, 70].map(|kilobytes| Step::Update(update(kilobytes)));
    let mut feed = server.stream(steps.into()).await;
    let first = feed.message().await.expect("60 kB are within the limit");
    assert!(first.is_some());
    let status = feed.message().await.expect_err("70 kB are not");
    assert_over("max-message-bytes", &status);
    assert!(status.message().contains("65536"), "{status}");
}

#[tokio::test]
async fn an_answer_over_the_message_limit_is_refused_by_name() {
    let server = Server::start(&["--max-message-bytes", "65536"]);
    for batch in 0..4 {
        let name = |number| format!("{}-{batch}-{number}", "n".repeat(60));
        let node = |number| plain_node(&name(number), &[]).change();
        server.update("", (0..500).map(node).collect()).await;
    }
    let all = filter_of(pod("pod", &[]));
    let status = server
        .client()
        .filter(all)
        .await
        .expect_err("2,000 long names");
    assert_over("max-message-bytes", &status);
}
