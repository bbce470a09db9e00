//! Nothing that was acknowledged is lost or done twice, whatever is killed and
//! paused meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use support::linearizable::{self, Event, Rules};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::replicas::build::{ZONE, having, node};
use crate::replicas::fleet::{Client, Fleet, batch, update};
use crate::replicas::users::{Known, Notes, REPLACED, User};
use support::model::Stored;

const CLIENTS: usize = 8;
const ZONES: usize = 3;
const NODES: usize = 9;
/// The number of pods that fit on a node.
const ROOM: i64 = 8;
/// The max skew of pods over zones.
pub(crate) const MAX_SKEW: i32 = 1;

/// Returns the duration of the harm: `CHAOS_SECONDS`.
fn duration() -> Duration {
    let seconds = std::env::var("CHAOS_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(30))
}

pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    seed
}

fn rules() -> Rules {
    let zone = |i: usize| (format!("n{i}"), format!("z{}", i % ZONES));
    Rules {
        zones: (0..NODES).map(zone).collect(),
        room: ROOM,
        max_skew: MAX_SKEW.into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn nothing_acknowledged_is_lost_whatever_is_killed() {
    let mut fleet = Fleet::start(3, 3, &[]);
    let seed = seed();
    let harm = async |fleet: &mut Fleet| harm(fleet, seed).await;
    nothing_is_lost(&mut fleet, (seed, Duration::ZERO), harm).await;
}

/// Has clients ask, with pauses, while something is done to the servers or the log, and checks
/// that nothing that was acknowledged is lost or done twice.
pub(crate) async fn nothing_is_lost(
    fleet: &mut Fleet,
    (seed, pause): (u64, Duration),
    meanwhile: impl AsyncFnOnce(&mut Fleet),
) {
    let rules = rules();
    let room = ROOM.to_string();
    let nodes = rules.zones.iter().map(|(name, zone)| {
        let node = node(name, &[(ZONE, zone)]);
        having(node, &[("pods", &room)]).change()
    });
    update(&fleet.clients(), 0, &batch("default", nodes.collect())).await;
    fleet.agree("default").await;
    fleet.brokers.settle().await;

    let notes = Arc::new(Notes::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let ask = ask(
        fleet.clients(),
        (seed, pause),
        Arc::clone(&notes),
        Arc::clone(&is_over),
    );
    meanwhile(fleet).await;
    is_over.store(true, Ordering::Relaxed);
    let known = ask.await.expect("no client fails");
    let history = notes.take();
    let written = write_down(&history, seed);
    check(fleet, &known).await;
    let faults = linearizable::faults(&history, Some(&rules));
    assert!(faults.is_empty(), "{written}: {faults:#?}");
    let repeated = history.iter().filter(|event| event.retried).count();
    println!("{} calls, {repeated} of them repeated", history.len());
    assert!(history.len() > 50, "nothing was asked");
    fleet.verify_log().await;
}

/// Has clients ask until `is_over` is set, on a thread of their own because starting a server
/// blocks the thread of the test.
fn ask(
    clients: Vec<Client>,
    (seed, pause): (u64, Duration),
    notes: Arc<Notes>,
    is_over: Arc<AtomicBool>,
) -> JoinHandle<Vec<Known>> {
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let users = (0..CLIENTS).map(async |number| {
            let mut user = User::new(number, clients.clone(), seed, Arc::clone(&notes));
            while !is_over.load(Ordering::Relaxed) {
                user.act().await;
                tokio::time::sleep(pause).await;
            }
            user.known
        });
        runtime.block_on(join_all(users))
    })
}

/// Writes the history to a file for a reader, and returns the path.
fn write_down(history: &[Event], seed: u64) -> String {
    let mut text = String::new();
    for event in history {
        writeln!(text, "{event:?}").expect("a string takes all");
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{seed}.txt"));
    std::fs::write(&path, text).expect("it is written");
    path.display().to_string()
}

/// Kills and pauses processes: at a time at most one nats-server, which the log survives, and one
/// server.
async fn harm(fleet: &mut Fleet, seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + duration();
    while Instant::now() < end {
        let signal = |dice: &mut fastrand::Rng| *dice.choice(&["KILL", "STOP"]).expect("there are");
        let victims = dice.u32(..3);
        let server = (victims != 0).then(|| (dice.usize(..3), signal(&mut dice)));
        let broker = (victims != 1).then(|| (dice.usize(..3), signal(&mut dice)));
        println!("server {server:?}, nats-server {broker:?}");
        if let Some((number, signal)) = server {
            fleet.signal(number, signal);
        }
        if let Some((number, signal)) = broker {
            fleet.brokers.signal(number, signal);
        }
        // Some faults last longer than an election, others end before one.
        let most = if broker.is_some() { 8000 } else { 2000 };
        tokio::time::sleep(Duration::from_millis(dice.u64(200..most))).await;
        match broker {
            Some((number, "KILL")) => fleet.brokers.run(number),
            Some((number, _)) => fleet.brokers.signal(number, "CONT"),
            None => {}
        }
        match server {
            Some((number, "KILL")) => fleet.run(number),
            Some((number, _)) => fleet.signal(number, "CONT"),
            None => {}
        }
        if broker.is_some() {
            fleet.brokers.settle().await;
        }
        tokio::time::sleep(Duration::from_millis(dice.u64(..1500))).await;
    }
}

/// Checks that all servers hold what the clients know, and nothing else.
async fn check(fleet: &Fleet, known: &[Known]) {
    let held = fleet.agree("default").await;
    let there = held.pods();
    let expected = known.iter().flat_map(|known| known.pods.clone());
    assert_eq!(there, expected.collect::<BTreeMap<_, _>>(), "pods");
    let reserved: BTreeSet<&str> = held.reservations.iter().map(|it| &*it.id).collect();
    let ids = known.iter().flat_map(|known| known.held.keys());
    assert_eq!(reserved, ids.map(|id| &**id).collect(), "reservations");

    let mut by_node: BTreeMap<&str, i64> = BTreeMap::new();
    let placed = there.values().filter(|node| *node != "elsewhere");
    for node in placed.chain(held.reservations.iter().map(|it| &it.node)) {
        *by_node.entry(node).or_default() += 1;
    }
    assert!(by_node.values().all(|pods| *pods <= ROOM), "{by_node:?}");

    if let Some(names) = known.iter().find_map(|known| known.replaced.as_ref()) {
        let there: Vec<_> = fleet.agree(REPLACED).await.pods().into_keys().collect();
        let mut names = names.clone();
        names.sort_unstable();
        assert_eq!(there, names, "the snapshot that was replaced");
    }
}
