//! A server joins those that share a log: it connects, and applies all their changes before it
//! answers anything.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{TryStreamExt, stream};
use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::{info, warn};
use uuid::Uuid;

use super::health::HealthState;
use crate::api;
use crate::backoff::Backoff;
use crate::log::Log;
use crate::log::lease::{Lease, Pace};
use crate::log::nats::Nats;
use crate::replica::{Replica, Waiting};
use crate::server::config::SharedLog;
use crate::server::error::Error;
use crate::server::telemetry::counts::Tails;
use crate::snapshot::{Fence, Registry, system_clock};
use crate::tasks;

/// The shortest pause between two attempts after a passing fault.
const SHORTEST_PAUSE: Duration = Duration::from_millis(400);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The number of snapshots that are read at a time. Each takes its memory and a thread.
const AT_ONCE: usize = 4;

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
    let name: Arc<str> = name().into();
    info!(%fleet, server = &*name, servers = access.servers.len(), "connecting to the log");
    let replicas = keeping.replicas;
    if replicas < 3 {
        warn!(
            replicas,
            "a lost nats-server may lose what was acknowledged"
        );
    }
    let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    let log = loop {
        match Nats::connect(access.clone(), fleet.clone(), keeping, &name).await {
            Ok(log) => break Arc::new(log) as Arc<dyn Log>,
            Err(error) if error.is_temporary() => {
                wait(health, &error, &mut pauses).await;
            }
            Err(error) => return Err(Error::Log(error.into())),
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
async fn wait(health: &HealthState, error: &impl Display, pauses: &mut Backoff) {
    warn!(%error, "waiting for the log");
    health.waits_for(Some(format!("waiting for the log: {error}")));
    sleep(pauses.after_failure()).await;
}

/// The name of the machine, with a part that makes it unique.
fn name() -> String {
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
            .try_for_each_concurrent(AT_ONCE, |name| {
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
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let (replica, act) = (Arc::clone(&self.replica), act.clone());
            let done = tasks::spawn_blocking(move || act(&replica)).await;
            match done.map_err(Error::serve)? {
                Ok(done) => {
                    health.waits_for(None);
                    return Ok(done);
                }
                Err(error) => wait(health, &error, &mut pauses).await,
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
        if let Some(lease) = lease.clone() {
            service = service.with_fence(Fence::new(move || lease.tenure()));
        }
        (service, lease)
    }
}
