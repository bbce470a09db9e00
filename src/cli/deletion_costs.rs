//! `evenkeel deletion-costs`: makes ReplicaSets delete the worst spread pods first.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tracing::{info, warn};

use super::backend::Client;
use super::cost_keeper::CostKeeper;
use super::exit::Exit;
use super::live_names;
use super::output;
use super::source::{self, QuestionScope};
use crate::kubernetes::{Reads, Target};
use crate::log::lease::Lease;
use crate::server::config::LogFormat;
use crate::server::logging;
use crate::visible;

/// The time between two checks for a new revision of the snapshot.
const LOOK: Duration = Duration::from_secs(2);

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(10);

/// Flags of `evenkeel deletion-costs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Pods of Deployments, ReplicaSets and ReplicationControllers that have spread constraints get the
annotation controller.kubernetes.io/pod-deletion-cost, so that whoever scales them down keeps them
spread. It is written by server-side apply, of few pods, and never where somebody else has written
one. A line says of each pod what it got.

Examples:
  evenkeel deletion-costs -n shop --from-cluster --dry-run   says what would be written
  evenkeel deletion-costs --from-cluster --watch             until it is interrupted

Exit codes:
  0  the pods have their values
  2  the cluster refused it
  3  the cluster could not be reached")]
pub(crate) struct DeletionCostsCommand {
    /// Namespace; by default all
    #[arg(short, long, value_name = "NAMESPACE", add = live_names::namespaces())]
    namespace: Option<String>,

    /// Do it again whenever pods have changed, until interrupted
    #[arg(short, long, conflicts_with = "dry_run")]
    watch: bool,

    /// Have the API server say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    state: source::SnapshotSource,
}

impl DeletionCostsCommand {
    /// Writes the values, once or until the command is interrupted.
    pub(crate) async fn run(self) -> Result<Exit> {
        anyhow::ensure!(
            self.state.asks_cluster(),
            "deletion costs are written in a cluster: say --from-cluster, or which with --context or --kubeconfig"
        );
        let namespace = self.namespace.as_deref();
        self.state
            .is_about(QuestionScope::of(namespace, QuestionScope::All));
        let client = match self.watch {
            true => self.state.follow().await?,
            false => self.state.client().await?,
        };
        let costs = WantedCosts {
            target: self.state.cluster.target(),
            client,
            snapshot: self.state.snapshot().to_owned(),
            namespace: self.namespace.unwrap_or_default(),
            lease: None,
        };
        let told = |namespace: &str, pod: &str, cost: i32| {
            let line = visible::text(&format!("{namespace}/{pod} {cost}")).into_owned();
            // The values are written to the cluster even if standard output is closed.
            let _ = writeln!(anstream::stdout(), "{line}");
        };
        if self.watch {
            logging::init(LogFormat::Auto, None).context("logging")?;
            match costs.keep(told).await {}
        }
        let mut keeper = costs.keeper().await?;
        keeper.is_dry_run = self.dry_run;
        let tally = keeper.bring_up_to_date(told).await?;
        match tally.foreign {
            0 => {}
            1 => output::warn("1 pod keeps what somebody else wrote"),
            pods => output::warn(&format!("{pods} pods keep what somebody else wrote")),
        }
        Ok(Exit::of(true))
    }
}

/// The deletion costs to keep up to date.
pub(super) struct WantedCosts {
    /// The cluster of the pods.
    pub(super) target: Target,
    /// The server that decides.
    pub(super) client: Client,
    /// The snapshot that the server decides on, which is equal to the cluster.
    pub(super) snapshot: String,
    /// The namespace of the pods; empty for all.
    pub(super) namespace: String,
    /// The lease, if several servers share the right to write.
    pub(super) lease: Option<Arc<Lease>>,
}

impl WantedCosts {
    /// Brings the values up to date whenever the snapshot has changed. Calls `told` with namespace,
    /// pod and value for each written value.
    pub(super) async fn keep(&self, told: impl Fn(&str, &str, i32)) -> Infallible {
        loop {
            let Err(error) = self.keep_written(&told).await;
            let error = format!("{error:#}");
            warn!(snapshot = self.snapshot, error, "deletion costs begin anew");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn keep_written(&self, told: impl Fn(&str, &str, i32)) -> Result<Infallible> {
        let mut keeper = self.keeper().await?;
        let mut done = None;
        loop {
            tokio::time::sleep(LOOK).await;
            if !keeper.may_write() {
                // Another server writes, so the known values become outdated.
                keeper.known.clear();
                done = None;
                continue;
            }
            let Ok(snapshot) = self.client.describe(&self.snapshot).await else {
                // The snapshot is not complete yet.
                continue;
            };
            let now = Some((snapshot.epoch, snapshot.revision));
            if done != now {
                let tally = keeper.bring_up_to_date(&told).await?;
                let (written, foreign) = (tally.written, tally.foreign);
                if written > 0 {
                    info!(snapshot = self.snapshot, written, foreign, "deletion costs");
                }
                done = now.filter(|_| keeper.may_write());
            }
        }
    }

    /// Connects to the cluster.
    async fn keeper(&self) -> Result<CostKeeper> {
        let cluster = self.target.clone().connect(Reads::WholeObjects).await?;
        Ok(CostKeeper {
            cluster,
            client: self.client.clone(),
            snapshot: self.snapshot.clone(),
            namespace: self.namespace.clone(),
            is_dry_run: false,
            lease: self.lease.clone(),
            known: HashMap::new(),
        })
    }
}
