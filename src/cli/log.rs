//! `evenkeel admin log`: the log that several servers share, as it is on its
//! nats-servers. No server of the fleet is asked.

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use tokio::runtime::Handle;

use super::exit::{Exit, Unreachable};
use super::{output, render};
use crate::log::audit::audit;
use crate::log::nats::Nats;
use crate::log::{self, Log};
use crate::replica::{self, Replica, Waiting};
use crate::server::ReplicationSettings;
use crate::snapshot::{Limits, Registry, Unobserved, system_clock};
use crate::tasks;
use crate::visible;

/// A command about a log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show the logs of a fleet: how long they are, and their checkpoints
    Status(Fleet),
    /// Read logs whole, and check that each record follows on the one before it
    Verify(Verify),
    /// Read snapshots here, and write a checkpoint of each
    Checkpoint(Snapshots),
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

/// Logs to read.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Verify {
    /// Also compare what each nats-server has, message by message, and read what it keeps
    /// besides the logs: slow
    #[arg(long)]
    copies: bool,

    #[command(flatten)]
    some: Snapshots,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; verify: everything is as it was written
  1  verify: something is missing, damaged or does not follow
  2  the log is not as needed, or the settings are wrong
  3  the nats-servers cannot be reached";

impl LogCommand {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            Self::Status(it) => status(&it.replication).await,
            Self::Verify(it) => verify(&it).await,
            Self::Checkpoint(it) => checkpoint(&it).await,
            Self::Trim(it) => trim(&it).await,
        }
    }
}

async fn connect(settings: &ReplicationSettings) -> Result<Arc<dyn Log>> {
    let shared = settings.shared_log()?;
    let shared = shared.context("--log and --fleet say which log is meant")?;
    let (access, keeping) = (shared.access, shared.keeping);
    match Nats::connect(access, shared.fleet, keeping, "evenkeel log").await {
        Ok(log) => Ok(Arc::new(log)),
        Err(error) if error.is_temporary() => Err(Unreachable(error.to_string()).into()),
        Err(error) => Err(error.into()),
    }
}

/// An error of the log as one of a command.
fn failed(error: log::Error) -> anyhow::Error {
    match error {
        log::Error::Unreachable(_) | log::Error::UnknownFate(_) => {
            Unreachable(error.to_string()).into()
        }
        error => error.into(),
    }
}

/// The snapshots that are named, or all in order.
async fn named(log: &dyn Log, names: &[String]) -> Result<Vec<String>> {
    if !names.is_empty() {
        return Ok(names.to_vec());
    }
    let mut names = log.names().await.map_err(failed)?;
    names.sort_unstable();
    Ok(names)
}

async fn status(settings: &ReplicationSettings) -> Result<Exit> {
    let log = connect(settings).await?;
    let checkpoints = replica::newest_checkpoints(&*log).await.map_err(failed)?;
    let mut rows = Vec::new();
    for name in named(&*log, &[]).await? {
        let mut bounds = log.bounds(&name).await.map_err(failed)?;
        let copies = log.inspect(Some(&name), false).await.map_err(failed)?;
        bounds.current = copies.iter().filter(|copy| copy.is_whole()).count();
        let checkpoint = checkpoints.get(&name).copied();
        rows.push((name, bounds, checkpoint));
    }
    log.inspect(None, false).await.map_err(failed)?;
    output::print(&render::logs(&rows))?;
    output::print(&render::log_troubles(&log.troubles()))?;
    Ok(Exit::Success)
}

async fn verify(settings: &Verify) -> Result<Exit> {
    let log = connect(&settings.some.replication).await?;
    let mut is_whole = true;
    for name in named(&*log, &settings.some.snapshots).await? {
        let found = audit(&*log, &name, settings.copies).await.map_err(failed)?;
        is_whole &= found.faulty == 0;
        output::print(&render::audited(&name, &found))?;
    }
    if settings.copies {
        log.inspect(None, true).await.map_err(failed)?;
        let troubles = log.troubles();
        is_whole &= troubles.is_empty();
        output::print(&render::log_troubles(&troubles))?;
    }
    Ok(Exit::of(is_whole))
}

/// Runs `work` with a replica inside this process.
async fn with_replica<T: Send + 'static>(
    log: &Arc<dyn Log>,
    work: impl FnOnce(&Replica) -> Result<T> + Send + 'static,
) -> Result<T> {
    let waiting = Waiting::on(Handle::current());
    let name = format!("evenkeel-log-{}", std::process::id());
    let replica = Replica::new(Arc::clone(log), name, waiting, system_clock());
    let replica = Arc::new(replica);
    let registry = Registry::new(Limits::none(), Arc::new(Unobserved));
    let registry = Arc::new(registry.with_journal(Arc::clone(&replica) as _));
    replica.serve(&registry);
    let work = move || {
        let done = work(&replica);
        drop(registry);
        done
    };
    tasks::spawn_blocking(work).await?
}

async fn checkpoint(settings: &Snapshots) -> Result<Exit> {
    let log = connect(&settings.replication).await?;
    for name in named(&*log, &settings.snapshots).await? {
        let named = name.clone();
        let write = move |replica: &Replica| -> Result<_> {
            replica.follow(&named, true)?;
            Ok(replica.checkpoint(&named)?)
        };
        let told = match with_replica(&log, write).await? {
            Some(sequence) => format!(
                "{}: the checkpoint covers {sequence}\n",
                visible::text(&name)
            ),
            None => format!(
                "{}: nothing is new since the last checkpoint\n",
                visible::text(&name)
            ),
        };
        output::print(&told)?;
    }
    Ok(Exit::Success)
}

async fn trim(settings: &Snapshots) -> Result<Exit> {
    let log = connect(&settings.replication).await?;
    for name in named(&*log, &settings.snapshots).await? {
        let named = name.clone();
        with_replica(&log, move |replica| Ok(replica.trim(&named)?)).await?;
        let bounds = log.bounds(&name).await.map_err(failed)?;
        output::print(&format!(
            "{}: begins at {}, ends at {}\n",
            visible::text(&name),
            bounds.first,
            bounds.last
        ))?;
    }
    Ok(Exit::Success)
}
