//! What a server of a fleet does all the time: it follows the logs of all
//! snapshots, and compares what it holds with what the others do. One server
//! writes checkpoints for all, and one drops what nobody needs.

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

/// How often snapshots are looked for that other servers created.
const LOOK: Duration = Duration::from_secs(1);

/// How long a thread waits for a message before it looks whether it should end.
const WAIT: Duration = Duration::from_secs(1);

/// How long a round of comparing takes.
const COMPARING_ROUND: Duration = Duration::from_secs(15);

/// By how much the priority of comparing is lower, as of `nice(1)`: nobody waits for it.
const NICENESS: i32 = 10;

/// How often it is looked what nobody needs.
const CLEANING_LOOK: Duration = Duration::from_secs(1_800);

/// How often a log is asked how long it is, for telemetry.
const ASK: Duration = Duration::from_secs(5);

/// The pauses after a log could not be followed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often it is looked whether a checkpoint is due.
const CHECK: Duration = Duration::from_secs(10);

/// When a checkpoint is due: after so long, or so many bytes of log.
const CHECKPOINT_AGE: Duration = Duration::from_secs(900);
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Follows all logs, as long as it is polled.
pub async fn follow_all(member: Membership) {
    // A thread for each log: it waits there for what comes.
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
            // Those that are known are followed all the same.
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
            // It is tried again.
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
    /// Follows until it is told to end.
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
                replica.mend_local(name);
                replica.copy_for_comparing(name);
            }
            let begun = Instant::now();
            if replica.wait(name, WAIT) {
                if !self.follow(&mut told) {
                    thread::sleep(pauses.after_failure());
                }
            } else if begun.elapsed() < SHORTEST_PAUSE {
                // The log cannot be asked.
                thread::sleep(pauses.after_failure());
            }
        }
        tails.forget(name);
    }

    /// Applies what has come; whether that was done.
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

/// Writes checkpoints and trims logs, whenever this server is the one that does.
pub async fn keep_checkpoints(member: Membership) -> Infallible {
    let lease = member.lease("checkpoints");
    lease.while_held(|| checkpoints(member.clone())).await
}

/// When the last checkpoint of a log was written, and how long it was then.
struct LastCheckpoint {
    at: Instant,
    /// What was appended since.
    grown: u64,
    /// What the log took when it was last looked at.
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
                    // A server that begins does not know.
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

/// Writes a checkpoint of a snapshot, and trims its log; whether that is done.
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

/// Compares what this server holds with what the others do, whenever that is due.
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

/// Drops what nobody needs, whenever this server is the one that does: blobs that nothing
/// names, and the logs of snapshots that were deleted.
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
