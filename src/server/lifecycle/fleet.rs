//! The continuous work of a server in a fleet: it follows the logs of all snapshots. One server
//! writes checkpoints for all, and one drops unused blobs and logs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, info, warn};

use super::joining::Membership;
use crate::backoff::Backoff;
use crate::log::lease::Lease;
use crate::replica::Replica;
use crate::tasks::{self, Task};

/// The time between two searches for snapshots that other servers created.
const LOOK: Duration = Duration::from_secs(1);

/// The longest wait for a message before the other work of following a log.
const WAIT: Duration = Duration::from_secs(1);

/// The number of logs whose messages are applied at a time. Each takes a thread meanwhile.
const AT_ONCE: usize = 32;

/// The time between two searches for the logs of deleted snapshots, and for unused blobs.
const REMOVING_LOOK: Duration = Duration::from_secs(10);
const CLEANING_LOOK: Duration = Duration::from_secs(1_800);

/// The time between two queries for the extents and the copies of all logs.
const ASK: Duration = Duration::from_secs(5);

/// The shortest pause after a log could not be followed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time between two checks whether a checkpoint is due.
const CHECK: Duration = Duration::from_secs(10);

/// The time, and the bytes of log, after which a checkpoint is due.
const CHECKPOINT_AGE: Duration = Duration::from_secs(900);
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Follows all logs until `ended` is cancelled, and returns once nothing is applied any more.
pub async fn follow_all(member: Membership, ended: CancellationToken) {
    let mut following = HashMap::new();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = None;
    while ended.run_until_cancelled(looks.tick()).await.is_some() {
        let replica = Arc::clone(&member.replica);
        match tasks::spawn_blocking(move || replica.discover()).await {
            Ok(Ok(names)) => {
                member.tails.note_reached(true);
                follow(&mut following, (&member, &permits), &ended, names);
            }
            // The known logs are still followed.
            Ok(Err(_)) => member.tails.note_reached(false),
            Err(_) => error!("looking for snapshots failed"),
        }
        if asked.is_none_or(|at: Instant| at.elapsed() >= ASK) {
            asked = Some(Instant::now());
            let survey = ended.run_until_cancelled(member.log.survey());
            if let Some(Ok(found)) = survey.await {
                member.tails.note(found);
            }
        }
    }
    for (_, task) in following.into_values() {
        // A task that failed follows nothing any more.
        let _ = task.await;
    }
}

/// The tasks that follow logs, and what ends them.
type FollowTasks = HashMap<String, (DropGuard, Task<()>)>;

/// Follows these logs, and no others.
fn follow(
    tasks: &mut FollowTasks,
    (member, permits): (&Membership, &Arc<Semaphore>),
    ended: &CancellationToken,
    names: Vec<String>,
) {
    tasks.retain(|name, _| names.binary_search(name).is_ok());
    for name in names {
        tasks.entry(name).or_insert_with_key(|name| {
            let ended = ended.child_token();
            let following = Following {
                member: member.clone(),
                permits: Arc::clone(permits),
                name: name.clone(),
            };
            let task = tasks::spawn(following.run(ended.clone()));
            (ended.drop_guard(), task)
        });
    }
}

/// The work of following one log.
struct Following {
    member: Membership,
    permits: Arc<Semaphore>,
    name: String,
}

impl Following {
    /// Follows the log until it is told to end. A log without news takes no thread.
    async fn run(self, ended: CancellationToken) {
        let (name, member) = (&*self.name, &self.member);
        let mut told = None;
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let begun = Instant::now();
            let wait = member.replica.wait(name, WAIT);
            let Some(has_news) = ended.run_until_cancelled(wait).await else {
                break;
            };
            let is_done = match has_news {
                true => self.follow(&mut told).await,
                // `wait` returns early if the log cannot be asked.
                false => begun.elapsed() >= SHORTEST_PAUSE,
            };
            let pause = sleep(pauses.after_failure());
            if !is_done && ended.run_until_cancelled(pause).await.is_none() {
                break;
            }
        }
    }

    /// Works on a thread that may wait; `None` if that failed.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Replica, &str) -> T + Send + 'static,
    ) -> Option<T> {
        let _permit = self.permits.acquire().await.ok()?;
        let (replica, name) = (Arc::clone(&self.member.replica), self.name.clone());
        let done = tasks::spawn_blocking(move || work(&replica, &name)).await;
        done.inspect_err(|_| error!("following a log failed")).ok()
    }

    /// Applies the messages that have come; returns whether that succeeded.
    async fn follow(&self, told: &mut Option<String>) -> bool {
        let name = &*self.name;
        match self
            .aside(|replica, name| replica.follow(name, false))
            .await
        {
            Some(Ok(())) => {
                if told.take().is_some() {
                    info!(snapshot = name, "the log is followed again");
                }
                true
            }
            Some(Err(error)) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    warn!(snapshot = name, error, "the log is not followed");
                    *told = Some(error);
                }
                false
            }
            None => false,
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
        let done = done.and_then(|sequence| replica.trim(&name).map(|_| sequence));
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

/// Drops blobs that nothing names, and the logs of deleted snapshots, while this server holds the
/// lease for that.
pub async fn clean(member: Membership) -> Infallible {
    let lease = Arc::new(member.lease("cleaning"));
    let work = async || {
        let mut looked = Instant::now();
        loop {
            sleep(REMOVING_LOOK).await;
            let is_due = looked.elapsed() >= CLEANING_LOOK;
            if is_due {
                looked = Instant::now();
            }
            let (replica, lease) = (Arc::clone(&member.replica), Arc::clone(&lease));
            let clean = move || {
                remove_deleted(&replica, &lease);
                if is_due {
                    drop_orphans(&replica);
                }
            };
            if tasks::spawn_blocking(clean).await.is_err() {
                error!("dropping what nobody needs failed");
            }
        }
    };
    lease.while_held(work).await
}

fn drop_orphans(replica: &Replica) {
    match replica.drop_orphans() {
        Ok(0) => {}
        Ok(dropped) => info!(dropped, "dropped blobs that nothing needs"),
        Err(error) => warn!(%error, "blobs that nothing needs are kept"),
    }
}

fn remove_deleted(replica: &Replica, lease: &Lease) {
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
