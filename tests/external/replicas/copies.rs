//! Copies of what a fleet keeps: those that are not current are told, and streams that somebody
//! deleted are made again.

use std::time::Instant;

use crate::replicas::build::node;
use crate::replicas::fleet::{Fleet, batch, update};
use crate::replicas::http::get;
use crate::replicas::metrics::Page;
use crate::replicas::process::{DEADLINE, until};
use support::model::Stored;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_copy_that_is_not_current_is_told() {
    let mut fleet = Fleet::start(3, 1, &["--admin-listen", "127.0.0.1:0"]);
    let clients = fleet.clients();
    update(
        &clients,
        0,
        &batch("default", vec![node("a", &[]).change()]),
    )
    .await;
    fleet.brokers.settle().await;
    let admin = fleet.admin(0);
    let snapshot = ["snapshot=\"default\""];
    for (signal, current) in [("STOP", 2.0), ("CONT", 3.0)] {
        fleet.brokers.signal(2, signal);
        let is_whole = current == 3.0;
        until("the copies are counted", || {
            let page = Page::of(&admin);
            let copies = page.sample("evenkeel_log_copies_current", &snapshot);
            let under = page.value("evenkeel_log_under_replicated", &[]);
            let ready = get(&admin, "/readyz");
            assert_eq!(ready.status, 200, "{}", ready.body);
            let is_told = |of: &str| {
                let line = format!("{of}: 2 of 3 copies are current, not that of n3");
                ready.body.lines().any(|told| told == line)
            };
            let told = ["log of snapshot default", "stream EVK_test_BLOBS"].map(is_told);
            let is_counted = copies == Some(current) && (under == 0.0) == is_whole;
            (is_counted && told == [!is_whole; 2]).then_some(())
        });
        let text = fleet.log(&["status"]).out;
        assert!(text.contains(&format!(" {current}/3 ")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn what_is_kept_besides_the_logs_is_made_again_when_it_is_deleted() {
    let mut fleet = Fleet::start(1, 2, &[]);
    let clients = fleet.clients();
    let change = |name: &str| batch("default", vec![node(name, &[]).change()]);
    let epoch = update(&clients, 0, &change("a")).await.epoch;
    let client = async_nats::connect(fleet.brokers.urls()).await;
    let streams = async_nats::jetstream::new(client.expect("it runs"));
    for (kind, name) in [("KEYS", "b"), ("BLOBS", "c")] {
        let stream = format!("EVK_test_{kind}");
        streams.delete_stream(&stream).await.expect("it was there");
        update(&clients, 0, &change(name)).await;
        let start = Instant::now();
        while streams.get_stream(&stream).await.is_err() {
            assert!(start.elapsed() < DEADLINE, "{stream} is not made again");
            let _ = fleet.log(&["status"]);
        }
        fleet.signal(1, "KILL");
        fleet.run(1);
        let held = fleet.agree("default").await;
        assert_eq!(held.epoch, epoch, "it is the same log");
    }
    fleet.checkpoint(&[]).await;
}
