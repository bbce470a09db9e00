//! What a server of a fleet does all the time: it follows the logs of all
//! snapshots. One server writes checkpoints for all.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::{error, info, warn};

use super::joining::Membership;
use crate::replica::Replica;

/// How often snapshots are looked for that other servers created.
const LOOK: Duration = Duration::from_secs(1);

/// How long a thread waits for a message before it looks whether it should end.
const WAIT: Duration = Duration::from_secs(1);

/// How often a log is asked how long it is, for telemetry.
const ASK: Duration = Duration::from_secs(5);

/// The pause after a log could not be followed.
const PAUSE: Duration = Duration::from_millis(250);

/// How often it is looked whether a checkpoint is due.
const CHECK: Duration = Duration::from_secs(10);

/// When a checkpoint is due: after so long, or so many bytes of log.
const CHECKPOINT_AGE: Duration = Duration::from_secs(900);
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Follows all logs, as long as it is polled.
pub async fn run(member: Membership) {
    let mut threads = FollowerThreads::default();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let replica = Arc::clone(&member.replica);
        match spawn_blocking(move || replica.discover()).await {
            Ok(Ok(names)) => threads.follow(&member, names),
            // Those that are known are followed all the same.
            Ok(Err(_)) => {}
            Err(_) => error!("looking for snapshots failed"),
        }
    }
}

/// A thread for each log: it waits there for what comes.
#[derive(Default)]
struct FollowerThreads(HashMap<String, Arc<AtomicBool>>);

impl FollowerThreads {
    /// Follows these logs, and no others.
    fn follow(&mut self, member: &Membership, names: Vec<String>) {
        self.0.retain(|name, ended| {
            let is_there = names.contains(name);
            ended.fetch_or(!is_there, Ordering::Relaxed);
            is_there
        });
        for name in names {
            if self.0.contains_key(&name) {
                continue;
            }
            let ended = Arc::new(AtomicBool::new(false));
            let following = Following {
                member: member.clone(),
                runtime: Handle::current(),
                name: name.clone(),
                ended: Arc::clone(&ended),
            };
            let spawned = thread::Builder::new().name("follow".to_owned());
            match spawned.spawn(move || following.run()) {
                Ok(_) => drop(self.0.insert(name, ended)),
                // It is tried again.
                Err(error) => error!(snapshot = name, %error, "a log is not followed"),
            }
        }
    }
}

impl Drop for FollowerThreads {
    fn drop(&mut self) {
        for ended in self.0.values() {
            ended.store(true, Ordering::Relaxed);
        }
    }
}

/// A thread that follows a log.
struct Following {
    member: Membership,
    runtime: Handle,
    name: String,
    ended: Arc<AtomicBool>,
}

impl Following {
    /// Follows until it is told to end.
    fn run(self) {
        let name = &*self.name;
        let mut told = None;
        let mut asked = Instant::now();
        while !self.ended.load(Ordering::Relaxed) {
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                let bounds = self.runtime.block_on(self.member.log.bounds(name));
                self.member
                    .tails
                    .note(name, bounds.ok().map(|bounds| bounds.last));
                self.member.replica.mend_local(name);
                self.member.replica.copy_for_comparing(name);
            }
            let begun = Instant::now();
            if self.member.replica.wait(name, WAIT) {
                self.follow(&mut told);
            } else if begun.elapsed() < PAUSE {
                // The log cannot be asked.
                thread::sleep(PAUSE);
            }
        }
        self.member.tails.forget(name);
    }

    fn follow(&self, told: &mut Option<String>) {
        let name = &*self.name;
        match self.member.replica.follow(name, false) {
            Ok(()) => {
                if told.take().is_some() {
                    info!(snapshot = name, "the log is followed again");
                }
            }
            Err(error) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    warn!(snapshot = name, error, "the log is not followed");
                    *told = Some(error);
                }
                thread::sleep(PAUSE);
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
    spawn_blocking(write).await.unwrap_or_else(|_| {
        error!("writing a checkpoint failed");
        false
    })
}
