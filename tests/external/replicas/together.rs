//! A snapshot that is deleted is gone on all servers of a fleet.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::{FilterRequest, Snapshot};
use support::caller::deletion;
use tonic::{Code, Status};

use crate::replicas::build::{filter_in, node, pod};
use crate::replicas::fleet::{Client, Fleet, batch, described, update};
use crate::replicas::process::DEADLINE;
use support::model::Stored;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_snapshot_that_is_deleted_is_gone_everywhere() {
    let fleet = Fleet::start(1, 2, &[]);
    let clients = fleet.clients();
    let request = batch("eu/a.b", vec![node("n", &[]).change()]);
    let first = update(&clients, 0, &request).await;
    fleet.agree("eu/a.b").await;
    let deleted = fleet.client(1).delete_snapshot(deletion("eu/a.b")).await;
    deleted.expect("it is there");
    gone(&fleet, "eu/a.b").await;
    let second = update(&clients, 0, &request).await;
    assert_eq!(second.revision, 1);
    assert_ne!(second.epoch, first.epoch);
    // A client that asks another server for the new epoch never sees the old one.
    let request = FilterRequest {
        min_revision: 1,
        epoch: second.epoch.clone(),
        ..filter_in("eu/a.b", pod("p", &[]))
    };
    let read = fleet.client(1).filter(request.clone()).await;
    let read = read.expect("it waits for the epoch").into_inner();
    assert_eq!(read.epoch, second.epoch);
    let former = FilterRequest {
        epoch: first.epoch,
        ..request
    };
    refused_for_its_epoch(&mut fleet.client(1), &former).await;
    assert_eq!(fleet.agree("eu/a.b").await.epoch, second.epoch);
    let there = described(&mut fleet.client(1), "eu/a.b").await;
    assert!(there.is_ok());
}

/// Asks for an epoch that is over until the server says so. The server says that at the end of the
/// call, when a slow client has given up already.
async fn refused_for_its_epoch(client: &mut Client, request: &FilterRequest) {
    let start = Instant::now();
    loop {
        let mut asked = tonic::Request::new(request.clone());
        asked.set_timeout(Duration::from_millis(500));
        let refused = client.filter(asked).await.expect_err("its epoch is over");
        if refused.code() == Code::Aborted {
            return;
        }
        assert!(is_late(&refused) && start.elapsed() < DEADLINE, "{refused}");
    }
}

fn is_late(status: &Status) -> bool {
    [Code::Cancelled, Code::DeadlineExceeded].contains(&status.code())
}

/// Waits until no server has a snapshot.
async fn gone(fleet: &Fleet, snapshot: &str) {
    let start = Instant::now();
    for client in fleet.clients() {
        while !is_missing(&described(&mut client.clone(), snapshot).await) {
            assert!(start.elapsed() < DEADLINE, "{snapshot} is still there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn is_missing(answer: &Result<Snapshot, Status>) -> bool {
    answer
        .as_ref()
        .is_err_and(|status| status.code() == Code::NotFound)
}
