//! A full disk: updates are refused, decisions go on, and updates are taken again once there is
//! room.

use std::time::Duration;

use evenkeel::proto::v1::Change;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::restart::home::{Home, Running, reserve};
use crate::restart::process::{DEADLINE, Server, run, serve_on_a_full_disk};
use support::build::{ZONE, filter_of, node, on, pod};
use support::model::Stored;

/// The size to which files of the server may grow.
const MOST_BYTES: u64 = 8 << 20;

/// A server whose files may grow only so far.
fn start_limited(home: &Home, most_bytes: u64) -> Running {
    let running = Running::of(Server::spawn(&mut patient(home, "")));
    running.server.limit_files(most_bytes);
    running
}

fn patient(home: &Home, before: &str) -> std::process::Command {
    let mut serve = serve_on_a_full_disk(before);
    serve.args(home.flags());
    serve
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
        match server.try_update(pods(batch)).await {
            Ok(next) => revision = next,
            Err(refusal) => break refusal,
        }
        batch += 1;
        assert!(batch < 1_000, "the disk never fills");
    };
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal}");
    let details = refusal.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    assert_eq!(reason, Some("STORAGE_FULL"));
    assert!(details.retry_info().is_some());
    let request = reserve(pod("", &[]), 1, Duration::from_secs(60));
    let refused = server.client.clone().place(request).await;
    assert_eq!(
        refused.expect_err("no room").code(),
        Code::ResourceExhausted
    );

    // The refused batch has no effect, and decisions and health go on.
    let described = server.describe("").await.expect("it exists");
    assert_eq!(
        (described.revision, described.pod_count),
        (revision, 2_000 * batch as i64)
    );
    let filter = filter_of(pod("", &[]));
    let answer = server.client.clone().filter(filter).await;
    let answer = answer.expect("decisions go on").into_inner();
    assert_eq!((answer.feasible_count, answer.revision), (1, revision));
    let mut health = HealthClient::new(server.server.channel());
    let status = health.check(HealthCheckRequest::default()).await;
    let status = status.expect("it answers").into_inner().status();
    assert_eq!(status, ServingStatus::Serving);

    // There is room again, and the server needs no restart.
    server.server.limit_files(1 << 30);
    let start = tokio::time::Instant::now();
    let next = loop {
        match server.try_update(pods(batch)).await {
            Ok(next) => break next,
            Err(_) => assert!(start.elapsed() < DEADLINE, "it does not recover"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
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
    let request = reserve(pod("", &[]), 1, Duration::from_secs(3_000));
    let reserved = first.client.clone().place(request).await;
    reserved.expect("a valid request");
    let seen = async |server: &Running| {
        let described = server.describe("").await.expect("it exists");
        (described, server.export("").await, server.held().await)
    };
    let before = seen(&first).await;
    first.kill().await;

    // It cannot write even a page in the middle of the file.
    let mut serve = patient(&home, "ulimit -S -f 16;");
    serve.args(["--listen", "127.0.0.1:0"]);
    let output = run(serve);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot use"), "{said}");
    assert_eq!(seen(&home.start(&[])).await, before);
}
