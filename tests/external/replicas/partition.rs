//! A partition of nats-servers, in which the leader that was cut off still answers with an older
//! end of the log.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::replicas::brokers::{Brokers, Setup};
use crate::replicas::build::node;
use crate::replicas::fleet::{Client, Fleet, batch, described, update};
use support::model::Stored;

/// The most attempts to find a leader that still answers after it was cut off.
const ROUNDS: usize = 4;

/// Puts some nodes at the first server. Returns the revision and the epoch afterwards.
async fn change(fleet: &Fleet, numbers: std::ops::Range<usize>) -> (i64, String) {
    let mut at = (0, String::new());
    for number in numbers {
        let change = node(&format!("n{number}"), &[]).change();
        let first = [fleet.client(0)];
        let answer = update(&first, 0, &batch("default", vec![change])).await;
        assert!(answer.revision > at.0 || answer.epoch != at.1);
        at = (answer.revision, answer.epoch);
    }
    at
}

/// Checks for a while that a server never answers with less than before.
async fn watch(mut client: Client, before: &(i64, String), span: Duration) {
    let (start, mut last) = (Instant::now(), before.clone());
    while start.elapsed() < span {
        let seen = described(&mut client, "default").await;
        let seen = seen.expect("it answers all the time");
        assert_eq!(seen.epoch, last.1, "the log has lost nothing");
        assert!(
            seen.revision >= last.0,
            "{} after {}",
            seen.revision,
            last.0
        );
        last.0 = seen.revision;
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn no_server_goes_back_with_a_leader_that_was_cut_off() {
    let setup = Setup {
        is_linked: true,
        ..Setup::default()
    };
    let brokers = Brokers::start_with(3, setup);
    let mut fleet = Fleet::on(brokers, 2, &[]);
    let mut at = change(&fleet, 0..3).await;
    fleet.agree("default").await;
    // A server that went back would restore this checkpoint.
    fleet.checkpoint(&[]).await;
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds <= ROUNDS, "no leader stayed when it was cut off");
        fleet.brokers.settle().await;
        let leader = fleet.brokers.leader("default").await;
        fleet.brokers.lead_to((leader + 1) % 3);
        at = change(&fleet, 0..2).await.max(at);
        fleet.brokers.links().cut_off(leader, true);
        // The others elect another leader, and take more changes.
        at = change(&fleet, 3..6).await.max(at);
        let end = fleet.brokers.end_at(leader, "default").await;
        let is_stale = end.is_some_and(|end| end.cast_signed() < at.0);
        println!(
            "round {rounds}: the leader that was cut off says {end:?}, at {}",
            at.0
        );
        fleet.brokers.lead_to(leader);
        watch(fleet.client(0), &at, Duration::from_secs(12)).await;
        fleet.brokers.links().cut_off(leader, false);
        watch(fleet.client(0), &at, Duration::from_secs(3)).await;
        if is_stale {
            break;
        }
    }
    // The fleet goes on, and a server that starts has everything.
    let after = change(&fleet, 6..7).await;
    assert_eq!(after.1, at.1);
    fleet.signal(1, "KILL");
    fleet.run(1);
    let held = fleet.agree("default").await;
    assert_eq!((held.revision, held.objects.len()), (after.0, 7));
    fleet.verify_log().await;
}
