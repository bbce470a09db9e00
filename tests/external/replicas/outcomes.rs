//! A fleet whose log fails, is damaged, or was replaced by another one.

use std::ops::Range;
use std::time::{Duration, Instant};

use evenkeel::proto::v1::UpdateSnapshotRequest;
use support::refusal::reason;
use tonic::Status;
use tonic_types::StatusExt;

use crate::replicas::build::{filter_in, node, pod};
use crate::replicas::fleet::{Client, Fleet, batch, described, passes, update};
use crate::replicas::http::get;
use crate::replicas::metrics::Page;
use crate::replicas::process::{DEADLINE, until};
use support::model::Stored;

/// Puts nodes one by one, at any server that runs.
async fn fill(clients: &[Client], snapshot: &str, names: impl IntoIterator<Item = usize>) {
    for number in names {
        update(clients, number, &put(snapshot, number)).await;
    }
}

fn put(snapshot: &str, number: usize) -> UpdateSnapshotRequest {
    batch(snapshot, vec![node(&format!("n{number}"), &[]).change()])
}

async fn filter(client: &mut Client, snapshot: &str) -> Result<i64, Status> {
    let request = filter_in(snapshot, pod("p", &[]));
    Ok(client.filter(request).await?.into_inner().feasible_count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn without_the_log_servers_answer_and_take_nothing() {
    let mut fleet = Fleet::start(3, 2, &["--max-age", "1h"]);
    for (snapshot, away) in [("no-broker", 0..3), ("no-majority", 1..3)] {
        println!("{snapshot}");
        without_a_majority(&mut fleet, snapshot, away).await;
        fleet.brokers.settle().await;
    }
    fleet.verify_log().await;
}

/// Pauses these nats-servers, which leaves none or no majority.
async fn without_a_majority(fleet: &mut Fleet, snapshot: &str, away: Range<usize>) {
    let clients = fleet.clients();
    fill(&clients, snapshot, 0..3).await;
    fleet.agree(snapshot).await;
    let signal = |fleet: &mut Fleet, signal| {
        (away.clone()).for_each(|number| fleet.brokers.signal(number, signal));
    };
    signal(fleet, "STOP");

    let start = Instant::now();
    let refused = loop {
        let refused = fleet.client(0).update_snapshot(put(snapshot, 3)).await;
        let refused = refused.expect_err("there is no log");
        if refused.get_details_retry_info().is_some() {
            break refused;
        }
        // Until the server knows that the log is out of reach, a call ends at its deadline.
        assert!(passes(&refused) && start.elapsed() < DEADLINE, "{refused}");
    };
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
    for client in &clients {
        grows_old(client.clone(), snapshot).await;
    }

    signal(fleet, "CONT");
    fill(&clients, snapshot, [4]).await;
    let held = fleet.agree(snapshot).await;
    // The node that was refused may be there, because the fate of that change was unknown.
    assert!([4, 5].contains(&held.objects.len()), "{held:?}");
}

/// Waits until a server says that its state is seconds old. The server answers all the time.
async fn grows_old(mut client: Client, snapshot: &str) {
    let start = Instant::now();
    loop {
        assert_eq!(filter(&mut client, snapshot).await.expect("it reads"), 3);
        let described = described(&mut client, snapshot).await.expect("it reads");
        let age = described.age.expect("it has a maximum age").seconds;
        if age >= 3 {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{age} s old");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_full_log_takes_nothing_until_there_is_room() {
    let fleet = Fleet::start(1, 2, &[]);
    let clients = fleet.clients();
    fill(&clients, "default", 0..3).await;
    fleet.agree("default").await;
    let taken = fleet.brokers.stream("default").await;
    let taken = taken.cached_info().state.bytes;
    fleet.brokers.limit("default", taken + 1).await;

    for mut client in clients.clone() {
        let refused = client.update_snapshot(put("default", 3)).await;
        let refused = refused.expect_err("there is no room");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
        assert_eq!(
            reason(&refused).as_deref(),
            Some("STORAGE_FULL"),
            "{refused}"
        );
        let answered = filter(&mut client, "default").await;
        assert_eq!(answered.expect("it reads"), 3);
    }

    fleet.brokers.limit("default", 64 << 20).await;
    fill(&clients, "default", [3]).await;
    let held = fleet.agree("default").await;
    assert_eq!(held.objects.len(), 4, "{held:?}");
    fleet.verify_log().await;
}

/// All cases share one fleet, because starting it takes most of the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_log_that_is_not_what_it_was_is_read_anew() {
    let mut fleet = Fleet::start(3, 3, &[]);
    println!("a server sleeps for longer than the log keeps");
    asleep_for_too_long(&mut fleet, "asleep").await;
    println!("a bit of a log is flipped");
    flipped(&mut fleet, "flipped").await;
}

async fn asleep_for_too_long(fleet: &mut Fleet, name: &str) {
    let clients = fleet.clients();
    fill(&clients, name, 0..5).await;
    fleet.agree(name).await;
    fleet.signal(2, "STOP");
    fill(&clients[..2], name, 5..15).await;
    fleet.checkpoint(&[name]).await;
    fill(&clients[..2], name, 15..17).await;
    let stream = fleet.brokers.stream(name).await;
    // Removes the records that the checkpoint covers.
    stream.purge().sequence(16).await.expect("it is there");
    fleet.signal(2, "CONT");
    let held = fleet.agree(name).await;
    assert_eq!((held.revision, held.objects.len()), (17, 17));
}

/// Flips a bit on each nats-server in turn, so that it is at times the leader of the log. Servers
/// read the log from a checkpoint that covers the damage.
async fn flipped(fleet: &mut Fleet, name: &str) {
    let clients = fleet.clients();
    fill(&clients, name, 0..20).await;
    fleet.checkpoint(&[name]).await;
    for number in 0..3 {
        fleet.brokers.settle().await;
        // The signal is TERM, because a nats-server that was killed checks its whole store and
        // copies what is damaged.
        fleet.brokers.signal(number, "TERM");
        fleet.brokers.flip_bit(number, name);
        fleet.brokers.run(number);
        fleet.brokers.settle().await;
        fleet.signal(number, "KILL");
        fleet.run(number);
        let next = 20 + number;
        fill(&clients, name, [next]).await;
        let held = fleet.agree(name).await;
        assert_eq!(held.objects.len(), next + 1);
    }
}

/// A message that no server wrote ends the log for all servers. None answers from it, and each says
/// so within seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_rewritten_log_is_not_answered_from() {
    let mut fleet = Fleet::start(1, 2, &["--admin-listen", "127.0.0.1:0"]);
    fill(&fleet.clients(), "default", 0..3).await;
    fleet.agree("default").await;
    let subject = "evk.test.log.default";
    fleet.brokers.publish(subject, "what is this").await;
    let published = Instant::now();
    for number in 0..2 {
        let admin = fleet.admin(number);
        until("it says so", || {
            let page = get(&admin, "/readyz");
            let line = "log of snapshot default: message 4 of the log: ";
            let is_told = page.body.lines().any(|it| it.starts_with(line));
            let counted = Page::of(&admin);
            let counts = ["evenkeel_log_troubles", "evenkeel_log_quarantines_total"];
            let is_counted = counts.iter().all(|it| counted.value(it, &[]) >= 1.0);
            (is_told && is_counted).then_some(())
        });
        let refused = filter(&mut fleet.client(number), "default").await;
        refused.expect_err("it cannot be trusted");
    }
    let took = published.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn a_server_does_not_start_on_too_few_copies() {
    let fleet = Fleet::start(1, 0, &[]);
    let refused = fleet.serve_with(&["--log-replicas", "3"]);
    refused.expect(1).complains("with 3 replicas");
}
