//! Servers that stop, start, and meet what others have just made.

use std::fs;

use crate::replicas::build::node;
use crate::replicas::fleet::{Fleet, batch, described, update};
use support::model::Stored;

fn change(snapshot: &str) -> evenkeel::proto::v1::UpdateSnapshotRequest {
    batch(snapshot, vec![node("n", &[]).change()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_snapshot_is_known_everywhere_at_once() {
    let fleet = Fleet::start(1, 2, &[]);
    for number in 0..20 {
        let name = format!("s{number}");
        let made = fleet.client(0).update_snapshot(change(&name)).await;
        made.expect("nobody is in the way");
        let found = described(&mut fleet.client(1), &name).await;
        assert_eq!(found.expect("another server has made it").revision, 1);
    }
    let unknown = described(&mut fleet.client(1), "never").await;
    assert_eq!(
        unknown.expect_err("nobody made it").code(),
        tonic::Code::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_server_that_stops_leaves_nothing_behind() {
    let mut fleet = Fleet::start(1, 1, &[]);
    for number in 0..20 {
        update(&fleet.clients(), 0, &change(&format!("s{number}"))).await;
    }
    for _ in 0..10 {
        let lines = fleet.stopped(0).await;
        let panicked = lines.iter().find(|line| line.contains("panicked"));
        assert_eq!(panicked, None);
        fleet.run(0);
    }
}

/// A server follows any number of logs with the threads that it has.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_log_takes_no_thread() {
    const LOGS: usize = 60;
    const SPARE: usize = 10;
    let fleet = Fleet::start(1, 1, &[]);
    let clients = fleet.clients();
    update(&clients, 0, &change("first")).await;
    let before = fleet.threads(0);
    for number in 0..LOGS {
        update(&clients, 0, &change(&format!("s{number}"))).await;
    }
    let after = fleet.threads(0);
    assert!(after < before + SPARE, "{before} threads, then {after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_damaged_state_directory_is_no_matter() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("evenkeel.redb"), "damaged").expect("there is room");
    let state = format!("--state-dir={}", directory.path().display());
    let mut fleet = Fleet::start(1, 1, &[&state]);
    update(&fleet.clients(), 0, &change("default")).await;
    let held = fleet.agree("default").await;
    fleet.stop(0, "TERM").await;
    fleet.run(0);
    assert_eq!(fleet.agree("default").await, held);
}
