//! `evenkeel admin log`: works with the logs of a fleet directly on their nats-servers, without the
//! fleet's servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::exit::{Exit, Unreachable};
use super::{output, render};
use crate::backoff::Backoff;
use crate::log::nats::{Keeping, Nats};
use crate::log::{self, Log};
use crate::replica::{self, Replica, Waiting};
use crate::server::ReplicationSettings;
use crate::snapshot::Error::NotStored;
use crate::snapshot::{self, JournalError, Limits, Registry, Unobserved, system_clock};
use crate::tasks;
use crate::visible;

/// The time for which a command tries to reach the log.
const PATIENCE: Duration = Duration::from_secs(20);
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A command about a log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show the logs of a fleet: how long they are, and their checkpoints
    Status(Fleet),
    /// Drop what checkpoints cover
    Trim(Snapshots),
}

/// A fleet.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Fleet {
    #[command(flatten)]
    replication: ReplicationSettings,
}

/// Some snapshots of a fleet.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Snapshots {
    /// Snapshots; all of the fleet if none is named
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,

    #[command(flatten)]
    replication: ReplicationSettings,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  2  the log is not as needed, or the settings are wrong
  3  the nats-servers could not be reached for 20 s";

impl LogCommand {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            Self::Status(it) => status(&it.replication).await,
            Self::Trim(it) => trim(&it).await,
        }
    }
}

async fn connect(settings: &ReplicationSettings) -> Result<Arc<dyn Log>> {
    let shared = settings.shared_log()?;
    let shared = shared.context("--log and --fleet say which log is meant")?;
    let connect = async || {
        let (access, fleet) = (shared.access.clone(), shared.fleet.clone());
        // What is there is used as it is.
        let keeping = Keeping { replicas: 0 };
        match Nats::connect(access, fleet, keeping, "evenkeel log").await {
            Ok(log) => Ok(Arc::new(log) as Arc<dyn Log>),
            Err(error) if error.is_temporary() => Err(Unreachable(error.to_string()).into()),
            Err(error) => Err(error.into()),
        }
    };
    insist(connect).await
}

/// Calls `ask`, and repeats it while the log is unreachable. After a fault, nats-servers need some
/// seconds to elect leaders.
async fn insist<T>(ask: impl AsyncFn() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        match ask().await {
            Err(error) if error.is::<Unreachable>() && start.elapsed() < PATIENCE => {
                output::warn(&format!("{error}; trying again"));
                sleep(pauses.after_failure()).await;
            }
            done => return done,
        }
    }
}

/// An error of the log as an error of a command.
fn failed(error: log::Error) -> anyhow::Error {
    match error {
        log::Error::Unreachable(_) | log::Error::UnknownFate(_) => {
            Unreachable(error.to_string()).into()
        }
        error => error.into(),
    }
}

/// An error of a replica as an error of a command.
fn refused(error: snapshot::Error) -> anyhow::Error {
    match error {
        NotStored(JournalError::Unreachable(_)) => Unreachable(error.to_string()).into(),
        error => error.into(),
    }
}

/// The named snapshots or, if none is named, all in order.
async fn named(log: &dyn Log, names: &[String]) -> Result<Vec<String>> {
    if !names.is_empty() {
        return Ok(names.to_vec());
    }
    let mut names = insist(async || log.names().await.map_err(failed)).await?;
    names.sort_unstable();
    Ok(names)
}

async fn status(settings: &ReplicationSettings) -> Result<Exit> {
    let log = connect(settings).await?;
    let names = named(&*log, &[]).await?;
    let rows = insist(async || rows(&*log, &names).await.map_err(failed)).await?;
    output::print(&render::logs(&rows).text())?;
    Ok(Exit::Success)
}

/// Returns each log with its bounds, and the sequence that its newest checkpoint covers.
async fn rows(log: &dyn Log, names: &[String]) -> Result<Vec<render::LogRow>, log::Error> {
    let checkpoints = replica::newest_checkpoints(log).await?;
    let mut rows = Vec::new();
    for name in names {
        let bounds = log.bounds(name).await?;
        rows.push((name.clone(), bounds, checkpoints.get(name).copied()));
    }
    Ok(rows)
}

/// Drops what checkpoints cover, by a replica in this process.
async fn trim(settings: &Snapshots) -> Result<Exit> {
    let log = connect(&settings.replication).await?;
    let waiting = Waiting::on(Handle::current());
    let name = format!("evenkeel-log-{}", std::process::id());
    let replica = Replica::new(Arc::clone(&log), name, waiting, system_clock());
    let replica = Arc::new(replica);
    let registry = Registry::new(Limits::none(), Arc::new(Unobserved));
    let registry = Arc::new(registry.with_journal(Arc::clone(&replica) as _));
    replica.serve(&registry);
    for name in named(&*log, &settings.snapshots).await? {
        let untrimmed = insist(async || {
            let (replica, name) = (Arc::clone(&replica), name.clone());
            let trimmed = tasks::spawn_blocking(move || replica.trim(&name)).await?;
            trimmed.map_err(|error| refused(NotStored(error)))
        });
        let untrimmed = untrimmed.await?;
        let bounds = insist(async || log.bounds(&name).await.map_err(failed)).await?;
        output::print(&format!(
            "{}: begins at {}, ends at {}{}\n",
            visible::text(&name),
            bounds.first,
            bounds.last,
            untrimmed.map_or_else(String::new, |why| format!("; nothing was dropped: {why}"))
        ))?;
    }
    Ok(Exit::Success)
}
