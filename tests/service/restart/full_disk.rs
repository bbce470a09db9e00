//! A full disk: updates are refused, decisions go on, and updates are taken again once there is
//! room.

use std::time::Duration;

use evenkeel::proto::v1::Change;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::restart::home::Home;
use crate::restart::process::{Server, eventually, run, serve_on_a_full_disk};
use support::build::{ZONE, filter_of, hold_of, node, on, pod, update_of};
use support::model::Stored;
use support::refusal::{code, reason};

/// The size to which files of the server may grow.
const MOST_BYTES: u64 = 8 << 20;

/// A server whose files may grow only so far.
fn start_limited(home: &Home, most_bytes: u64) -> Server {
    let running = Server::spawn(&mut patient(home, ""));
    running.limit_files(most_bytes);
    running
}

fn patient(home: &Home, before: &str) -> std::process::Command {
    let mut serve = serve_on_a_full_disk(before);
    serve.args(home.flags());
    serve
}

/// Sends changes. Returns the revision.
async fn try_update(server: &Server, changes: Vec<Change>) -> Result<i64, Status> {
    let updated = server.client().update_snapshot(update_of(changes)).await?;
    Ok(updated.into_inner().revision)
}

fn pods(batch: usize) -> Vec<Change> {
    let pod = |i| on(pod(&format!("pod-{batch}-{i}"), &[("app", "web")]), "a").change();
    (0..2_000).map(pod).collect()
}

#[tokio::test]
async fn updates_are_refused_while_there_is_no_room() {
    let home = Home::new();
    let server = start_limited(&home, MOST_BYTES);
    let mut revision = server
        .update("", vec![node("a", &[(ZONE, "z")]).change()])
        .await
        .revision;
    let mut batch = 0;
    let refusal = loop {
        match try_update(&server, pods(batch)).await {
            Ok(next) => revision = next,
            Err(refusal) => break refusal,
        }
        batch += 1;
        assert!(batch < 1_000, "the disk never fills");
    };
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal}");
    assert_eq!(reason(&refusal).as_deref(), Some("STORAGE_FULL"));
    assert!(refusal.get_details_retry_info().is_some());
    let request = hold_of(pod("", &[]), 1, Duration::from_secs(60));
    let refused = server.client().place(request).await;
    assert_eq!(code(refused), Code::ResourceExhausted);

    // The refused batch has no effect, and decisions and health go on.
    let described = server.describe("").await;
    assert_eq!(
        (described.revision, described.pod_count),
        (revision, 2_000 * batch as i64)
    );
    let answer = server.filter(filter_of(pod("", &[]))).await;
    assert_eq!((answer.feasible_count, answer.revision), (1, revision));
    let mut health = HealthClient::new(server.channel());
    let status = health.check(HealthCheckRequest::default()).await;
    let status = status.expect("it answers").into_inner().status();
    assert_eq!(status, ServingStatus::Serving);

    // There is room again, and the server needs no restart.
    server.limit_files(1 << 30);
    let next = async || try_update(&server, pods(batch)).await.ok();
    let next = eventually("it recovers", next).await;
    assert_eq!(next, revision + 1);
    let exported = server.export("").await;
    server.kill().await;
    let again = home.start(&[]);
    assert_eq!(again.export("").await, exported);
}

#[tokio::test]
async fn a_server_that_starts_on_a_full_disk_says_so_and_loses_nothing() {
    let home = Home::new();
    let first = home.start(&[]);
    first
        .update("", vec![node("a", &[(ZONE, "z")]).change()])
        .await;
    for batch in 0..3 {
        first.update("", pods(batch)).await;
    }
    let request = hold_of(pod("", &[]), 1, Duration::from_secs(3_000));
    first.place(request).await;
    let seen = async |server: &Server| {
        let described = server.describe("").await;
        (described, server.export("").await, server.held().await)
    };
    let before = seen(&first).await;
    first.kill().await;

    // It cannot write even a page in the middle of the file.
    let mut serve = patient(&home, "ulimit -S -f 16;");
    serve.args(["--listen", "127.0.0.1:0"]);
    run(serve).expect(1).complains("cannot use");
    assert_eq!(seen(&home.start(&[])).await, before);
}
