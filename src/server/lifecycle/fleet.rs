//! A server in a fleet. It connects to the log, applies all changes before it answers anything, and
//! follows the logs of all snapshots. One server writes checkpoints for all, and drops unused blobs
//! and logs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::{TryStreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::api;
use crate::backoff::Backoff;
use crate::log::Log;
use crate::log::lease::{Lease, Pace};
use crate::log::nats::Nats;
use crate::replica::{Replica, Waiting};
use crate::server::Error;
use crate::server::config::SharedLog;
use crate::server::telemetry::Tails;
use crate::server::telemetry::health::HealthState;
use crate::snapshot::{Fence, Registry, system_clock};
use crate::tasks::{self, Task};

/// The time between two searches for snapshots that other servers created.
const LOOK: Duration = Duration::from_secs(1);

/// The longest wait for a message before the other work of following a log.
const WAIT: Duration = Duration::from_secs(1);

/// The number of logs whose messages are applied at a time. Each takes a thread meanwhile.
const AT_ONCE: usize = 32;

/// The time between two searches for unused blobs.
const CLEANING_LOOK: Duration = Duration::from_secs(1_800);

/// The time between two queries for the extents and the copies of all logs.
const ASK: Duration = Duration::from_secs(5);

/// The shortest pause after a log could not be followed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time between two checks whether a checkpoint is due, and for logs of deleted snapshots.
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
            let (member, permits) = (member.clone(), Arc::clone(permits));
            let task = tasks::spawn(follow_one(member, permits, name.clone(), ended.clone()));
            (ended.drop_guard(), task)
        });
    }
}

/// Follows a log until it is told to end. A log without news takes no thread.
async fn follow_one(
    member: Membership,
    permits: Arc<Semaphore>,
    name: String,
    ended: CancellationToken,
) {
    let mut told = None;
    let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        let begun = Instant::now();
        let wait = member.replica.wait(&name, WAIT);
        let Some(has_news) = ended.run_until_cancelled(wait).await else {
            return;
        };
        let is_done = match has_news {
            true => apply_news(&member.replica, &permits, &name, &mut told).await,
            // `wait` returns early if the log cannot be asked.
            false => begun.elapsed() >= SHORTEST_PAUSE,
        };
        let pause = sleep(pauses.after_failure());
        if !is_done && ended.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// Applies the messages of a log that have come, on a thread that may wait; returns whether that
/// succeeded. `told` is the fault that was logged last.
async fn apply_news(
    replica: &Arc<Replica>,
    permits: &Semaphore,
    name: &str,
    told: &mut Option<String>,
) -> bool {
    let _permit = permits.acquire().await;
    let (replica, of) = (Arc::clone(replica), name.to_owned());
    match tasks::spawn_blocking(move || replica.follow(&of, false)).await {
        Ok(Ok(())) => {
            if told.take().is_some() {
                info!(snapshot = name, "the log is followed again");
            }
            return true;
        }
        Ok(Err(error)) => {
            let error = error.to_string();
            if told.as_ref() != Some(&error) {
                warn!(snapshot = name, error, "the log is not followed");
                *told = Some(error);
            }
        }
        Err(_) => error!("following a log failed"),
    }
    false
}

/// Writes checkpoints and trims logs, and drops blobs that nothing names and the logs of deleted
/// snapshots, while this server holds the lease for that.
pub async fn keep_small(member: Membership) -> Infallible {
    let lease = Arc::new(member.lease("checkpoints"));
    let work = async || {
        let mut written = HashMap::new();
        let mut looked = Instant::now();
        loop {
            sleep(CHECK).await;
            write_due(&member, &mut written).await;
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

/// The time of the last checkpoint of a log, and the growth of the log since.
struct LastCheckpoint {
    at: Instant,
    /// The bytes that were appended since.
    grown: u64,
    /// The bytes that the log took at the last check.
    bytes: u64,
}

/// Writes the checkpoints that are due.
async fn write_due(member: &Membership, written: &mut HashMap<String, LastCheckpoint>) {
    let Ok(names) = member.log.names().await else {
        return;
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

/// The shortest pause between two attempts after a passing fault.
const SHORTEST_WAIT: Duration = Duration::from_millis(400);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The number of snapshots that are read at a time. Each takes its memory and a thread.
const READ_AT_ONCE: usize = 4;

/// A server's part in a fleet.
#[derive(Clone)]
pub struct Membership {
    /// The log that all servers share.
    pub log: Arc<dyn Log>,
    /// The replica, which follows the log and appends to it.
    pub replica: Arc<Replica>,
    /// The name of this server in the fleet; no other server has it.
    pub name: Arc<str>,
    /// The lengths of the logs.
    pub tails: Arc<Tails>,
}

/// Connects to the log. Waits while no nats-server can be reached, so both may be started at once
/// in any order.
pub async fn connect(settings: SharedLog, health: &HealthState) -> Result<Membership, Error> {
    let SharedLog {
        access,
        fleet,
        keeping,
    } = settings;
    let name: Arc<str> = server_name().into();
    info!(%fleet, server = &*name, servers = access.servers.len(), "connecting to the log");
    let replicas = keeping.replicas;
    if replicas < 3 {
        warn!(
            replicas,
            "a lost nats-server may lose what was acknowledged"
        );
    }
    let mut pauses = Backoff::new(SHORTEST_WAIT, LONGEST_WAIT);
    let log = loop {
        match Nats::connect(access.clone(), fleet.clone(), keeping, &name).await {
            Ok(log) => break Arc::new(log) as Arc<dyn Log>,
            Err(error) if error.is_temporary() => {
                wait_for_log(health, &error, &mut pauses).await;
            }
            Err(error) => return Err(Error::Unusable(error.into())),
        }
    };
    health.waits_for(None);
    let waiting = Waiting::on(Handle::current());
    let replica = Replica::new(Arc::clone(&log), name.to_string(), waiting, system_clock());
    Ok(Membership {
        log,
        replica: Arc::new(replica),
        name,
        tails: Arc::default(),
    })
}

/// Reports the fault that keeps the server from starting, and pauses.
async fn wait_for_log(health: &HealthState, error: &impl Display, pauses: &mut Backoff) {
    warn!(%error, "waiting for the log");
    health.waits_for(Some(format!("waiting for the log: {error}")));
    sleep(pauses.after_failure()).await;
}

/// The name of the machine, with a part that makes it unique.
fn server_name() -> String {
    let machine = std::env::var("HOSTNAME").unwrap_or_default();
    let machine = machine.chars().filter(char::is_ascii_graphic);
    let machine: String = machine.take(64).collect();
    let own = Uuid::new_v4().simple().to_string();
    match machine.is_empty() {
        true => own[..12].to_owned(),
        false => format!("{machine}-{}", &own[..8]),
    }
}

impl Membership {
    /// The lease of the server that does some work for all.
    pub fn lease(&self, of: &str) -> Lease {
        let (log, key) = (Arc::clone(&self.log), format!("lease/{of}"));
        Lease::new(log, &key, &self.name, Pace::default())
    }

    /// Applies everything that the logs of all snapshots contain at present.
    pub async fn catch_up(
        &self,
        registry: &Arc<Registry>,
        health: &HealthState,
    ) -> Result<(), Error> {
        let start = Instant::now();
        let names = self.insist(health, |replica| replica.discover()).await?;
        let snapshots = names.len();
        stream::iter(names.into_iter().map(Ok))
            .try_for_each_concurrent(READ_AT_ONCE, |name| {
                self.insist(health, move |replica| replica.follow(&name, true))
            })
            .await?;
        let all = registry.list("");
        let pods: usize = all.iter().map(|s| s.summary().sizes.pods).sum();
        info!(snapshots, pods, took = ?start.elapsed(), "caught up with the log");
        Ok(())
    }

    /// Repeats a task of the replica, on a blocking thread, until it succeeds.
    async fn insist<T, E>(
        &self,
        health: &HealthState,
        act: impl Fn(&Replica) -> Result<T, E> + Clone + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        E: Display + Send + 'static,
    {
        let mut pauses = Backoff::new(SHORTEST_WAIT, LONGEST_WAIT);
        loop {
            let (replica, act) = (Arc::clone(&self.replica), act.clone());
            let done = tasks::spawn_blocking(move || act(&replica)).await;
            match done.map_err(Error::serve)? {
                Ok(done) => {
                    health.waits_for(None);
                    return Ok(done);
                }
                Err(error) => wait_for_log(health, &error, &mut pauses).await,
            }
        }
    }
}

/// A server that has started, for the feeds inside its process.
pub struct Started {
    /// The server's service.
    pub service: api::Service,
    pub(super) member: Option<Membership>,
    pub(super) health: HealthState,
}

impl Started {
    /// Records that the feed of a snapshot is refused, and why: the server is not ready then.
    pub fn refused(&self, snapshot: &str) -> impl Fn(Option<String>) + Send + 'static {
        let (health, snapshot) = (self.health.clone(), snapshot.to_owned());
        move |why| health.refused(&snapshot, why)
    }

    /// The service for a feed of a snapshot, with the lease that the feed needs: in a fleet one
    /// server feeds a snapshot at a time. Without the lease the service refuses changes. A single
    /// server has no lease.
    pub fn feeding(&self, snapshot: &str) -> (api::Service, Option<Arc<Lease>>) {
        let lease = self.member.as_ref();
        let lease = lease.map(|member| Arc::new(member.lease(&format!("feed/{snapshot}"))));
        let mut service = self.service.clone();
        let right = lease.clone();
        service.fence = right.map(|lease| Fence::new(move || lease.tenure()));
        (service, lease)
    }
}
