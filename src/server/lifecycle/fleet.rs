//! The continuous work of a server in a fleet: it follows the logs of all snapshots, and compares
//! its state with the other servers'. One server writes checkpoints for all, and one drops unused
//! blobs and logs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, info, warn};

use super::joining::Membership;
use crate::api::Background;
use crate::backoff::Backoff;
use crate::log::lease::Lease;
use crate::replica::Replica;
use crate::tasks;

/// The time between two searches for snapshots that other servers created.
const LOOK: Duration = Duration::from_secs(1);

/// The time that a thread waits for a message before it checks whether it should end.
const WAIT: Duration = Duration::from_secs(1);

/// The time between two rounds of comparing.
const COMPARING_ROUND: Duration = Duration::from_secs(15);

/// The amount by which the priority of comparing is lower, as in `nice(1)`: no call waits for it.
const NICENESS: i32 = 10;

/// The time between two searches for unused blobs and logs.
const CLEANING_LOOK: Duration = Duration::from_secs(1_800);

/// The time between two queries for the length of a log, for telemetry.
const ASK: Duration = Duration::from_secs(5);

/// The shortest pause after a log could not be followed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The times between two counts of the copies of logs: usually, and while a copy is incomplete.
const COUNT_COPIES: Duration = Duration::from_secs(600);
const COUNT_AGAIN: Duration = Duration::from_secs(120);

/// The time between two checks whether a checkpoint is due.
const CHECK: Duration = Duration::from_secs(10);

/// The time, and the bytes of log, after which a checkpoint is due.
const CHECKPOINT_AGE: Duration = Duration::from_secs(900);
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Follows all logs, as long as it is polled.
pub async fn follow_all(member: Membership) {
    // Each log has a thread, which waits for messages.
    let mut threads = HashMap::new();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let replica = Arc::clone(&member.replica);
        match tasks::spawn_blocking(move || replica.discover()).await {
            Ok(Ok(names)) => {
                member.tails.note_reached(true);
                follow(&mut threads, &member, names);
            }
            // The known logs are still followed.
            Ok(Err(_)) => member.tails.note_reached(false),
            Err(_) => error!("looking for snapshots failed"),
        }
    }
}

/// Follows these logs, and no others.
fn follow(threads: &mut HashMap<String, DropGuard>, member: &Membership, names: Vec<String>) {
    threads.retain(|name, _| names.contains(name));
    for name in names {
        if threads.contains_key(&name) {
            continue;
        }
        let ended = CancellationToken::new();
        let following = Following {
            member: member.clone(),
            runtime: Handle::current(),
            name: name.clone(),
            ended: ended.clone(),
        };
        let spawned = thread::Builder::new().name("follow".to_owned());
        match spawned.spawn(move || following.run()) {
            Ok(_) => drop(threads.insert(name, ended.drop_guard())),
            // The next round tries again.
            Err(error) => error!(snapshot = name, %error, "a log is not followed"),
        }
    }
}

/// A thread that follows a log.
struct Following {
    member: Membership,
    runtime: Handle,
    name: String,
    ended: CancellationToken,
}

impl Following {
    /// Follows the log until the thread is told to end.
    fn run(self) {
        let name = &*self.name;
        let Membership {
            log,
            replica,
            tails,
            ..
        } = &self.member;
        let mut told = None;
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut asked = Instant::now();
        while !self.ended.is_cancelled() {
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                let bounds = self.runtime.block_on(log.bounds(name));
                tails.note(name, bounds.ok().map(|bounds| bounds.last));
                // `check_clock` reports its fault itself.
                let _ = replica.check_clock(name);
                replica.mend_local(name);
                replica.copy_for_comparing(name);
            }
            let begun = Instant::now();
            if replica.wait(name, WAIT) {
                if !self.follow(&mut told) {
                    thread::sleep(pauses.after_failure());
                }
            } else if begun.elapsed() < SHORTEST_PAUSE {
                // `wait` returned early, because the log cannot be asked.
                thread::sleep(pauses.after_failure());
            }
        }
        tails.forget(name);
    }

    /// Applies the messages that have come; returns whether that succeeded.
    fn follow(&self, told: &mut Option<String>) -> bool {
        let name = &*self.name;
        match self.member.replica.follow(name, false) {
            Ok(()) => {
                if told.take().is_some() {
                    info!(snapshot = name, "the log is followed again");
                }
                true
            }
            Err(error) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    warn!(snapshot = name, error, "the log is not followed");
                    *told = Some(error);
                }
                false
            }
        }
    }
}

/// Writes checkpoints and trims logs, while this server holds the lease for that.
pub async fn keep_checkpoints(member: Membership) -> Infallible {
    let lease = member.lease("checkpoints");
    lease.while_held(|| checkpoints(member.clone())).await
}

/// The time of the last checkpoint of a log, and the growth of the log since.
struct LastCheckpoint {
    at: Instant,
    /// The bytes that were appended since.
    grown: u64,
    /// The bytes that the log took at the last check.
    bytes: u64,
}

async fn checkpoints(member: Membership) -> Infallible {
    let mut written: HashMap<String, LastCheckpoint> = HashMap::new();
    loop {
        sleep(CHECK).await;
        let Ok(names) = member.log.names().await else {
            continue;
        };
        written.retain(|name, _| names.contains(name));
        for name in names {
            let Ok(bounds) = member.log.bounds(&name).await else {
                continue;
            };
            let last = written
                .entry(name.clone())
                .or_insert_with(|| LastCheckpoint {
                    // A server that has just started does not know the time of the last checkpoint.
                    at: Instant::now(),
                    grown: bounds.bytes,
                    bytes: bounds.bytes,
                });
            last.grown += bounds.bytes.saturating_sub(last.bytes);
            last.bytes = bounds.bytes;
            if last.at.elapsed() < CHECKPOINT_AGE && last.grown < CHECKPOINT_BYTES {
                continue;
            }
            if write(&member.replica, &name).await {
                last.at = Instant::now();
                last.grown = 0;
            }
        }
    }
}

/// Writes a checkpoint of a snapshot, and trims its log; returns whether that succeeded.
async fn write(replica: &Arc<Replica>, name: &str) -> bool {
    let (replica, name) = (Arc::clone(replica), name.to_owned());
    let write = move || {
        let done = replica.checkpoint(&name);
        let done = done.and_then(|sequence| replica.trim(&name).map(|()| sequence));
        match done {
            Ok(Some(sequence)) => {
                info!(snapshot = name, sequence, "wrote a checkpoint");
                true
            }
            Ok(None) => true,
            Err(error) => {
                warn!(snapshot = name, %error, "no checkpoint was written");
                false
            }
        }
    };
    tasks::spawn_blocking(write).await.unwrap_or_else(|_| {
        error!("writing a checkpoint failed");
        false
    })
}

/// Compares this server's state with the others', whenever that is due.
pub async fn compare(member: Membership) -> Infallible {
    let thread = Background::for_work("compare", 1, NICENESS);
    loop {
        sleep(COMPARING_ROUND).await;
        let replica = Arc::clone(&member.replica);
        if thread.run(move || replica.compare_all()).await.is_err() {
            error!("comparing with other servers failed");
        }
    }
}

/// Finds out at the start, and now and then, which copies of logs are incomplete.
pub async fn watch_copies(member: Membership) -> Infallible {
    loop {
        let replica = Arc::clone(&member.replica);
        let count = move || {
            let counted = replica.discover();
            let counted = counted.and_then(|names| replica.inspect(&names));
            counted.is_ok() && replica.troubles().is_empty()
        };
        let is_whole = tasks::spawn_blocking(count).await.unwrap_or_else(|_| {
            error!("counting the copies of logs failed");
            false
        });
        sleep(if is_whole { COUNT_COPIES } else { COUNT_AGAIN }).await;
    }
}

/// Drops blobs that nothing names, and the logs of deleted snapshots, while this server holds the
/// lease for that.
pub async fn clean(member: Membership) -> Infallible {
    let lease = Arc::new(member.lease("cleaning"));
    let work = async || loop {
        sleep(CLEANING_LOOK).await;
        let (replica, lease) = (Arc::clone(&member.replica), Arc::clone(&lease));
        let cleaned = tasks::spawn_blocking(move || clean_once(&replica, &lease));
        if cleaned.await.is_err() {
            error!("dropping what nobody needs failed");
        }
    };
    lease.while_held(work).await
}

fn clean_once(replica: &Replica, lease: &Lease) {
    match replica.drop_orphans() {
        Ok(0) => {}
        Ok(dropped) => info!(dropped, "dropped blobs that nothing needs"),
        Err(error) => warn!(%error, "blobs that nothing needs are kept"),
    }
    let names = match replica.discover() {
        Ok(names) => names,
        Err(error) => return warn!(%error, "logs of deleted snapshots are kept"),
    };
    for name in names {
        match replica.remove_deleted(&name, || lease.is_held()) {
            Ok(false) => {}
            Ok(true) => info!(snapshot = name, "removed the log of a deleted snapshot"),
            Err(error) => warn!(snapshot = name, %error, "the log of a deleted snapshot is kept"),
        }
    }
}
