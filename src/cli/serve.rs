//! `evenkeel serve`: runs the server, and loads files into it first; and the feed of a snapshot from a
//! cluster, in the process of the server with `--kubernetes`, and for a server elsewhere with `evenkeel
//! feed`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tracing::{info, warn};

use super::backend::Client;
use super::exit::Exit;
use super::input::{self, Input};
use super::{args, completions};
use crate::kubernetes::{ClusterFeed, DefaultsSource, OnRefusal, Target, run_in_thread};
use crate::server::config::LogFormat;
use crate::server::{self, Config, Started, logging};
use crate::snapshot::Limits;
use crate::{api, tasks};

/// Flags of `evenkeel serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Snapshot into which --load loads
    #[arg(
        short,
        long,
        env = "EVENKEEL_SNAPSHOT",
        value_name = "NAME",
        default_value = "default"
    )]
    snapshot: String,

    #[command(flatten)]
    rules: args::RulesFlags,

    // This comes after the flags without a heading, because a heading applies to all later flags.
    #[command(flatten)]
    pub(super) config: server::Config,

    #[command(flatten)]
    watch: WatchSettings,
}

impl Serve {
    /// Runs the server until it is stopped.
    pub(crate) fn run(mut self) -> ExitCode {
        let loads = !self.config.load.is_empty() || self.rules.are_set();
        let loaded = loads.then_some(&*self.snapshot);
        let watching = match self.watch.plan(&mut self.config, loaded) {
            Ok(watching) => watching,
            Err(conflict) => {
                server::logging::fatal(self.config.log.log_format, &conflict);
                return ExitCode::from(server::config::BAD_CONFIGURATION);
            }
        };
        let files = self.config.load.clone();
        let (snapshot, rules) = (self.snapshot, self.rules);
        let counts = watching.iter().map(|feed| Arc::clone(&feed.counts));
        server::run(self.config, counts.collect(), |server| async {
            if let Some(feed) = watching {
                start(feed, &server)?;
            }
            // The server prints only the error itself, so this joins it with its causes.
            let loaded = preload(server.service, files, &snapshot, rules).await;
            loaded.map_err(|error| anyhow::anyhow!("{error:#}"))
        })
    }
}

/// Replaces the snapshot of `service` with the content of the files, as `evenkeel load` does. Does
/// nothing without files, default constraints and a version.
async fn preload(
    service: api::Service,
    files: Vec<PathBuf>,
    snapshot: &str,
    rules: args::RulesFlags,
) -> Result<()> {
    if files.is_empty() && !rules.are_set() {
        return Ok(());
    }
    // Reading a large cluster takes seconds, so it must not block a thread that answers health
    // checks.
    let read = move || Input::read(&files, &rules, None);
    let input = tasks::spawn_blocking(read).await??;
    let mut input = input.or_system_defaults();
    let client = Client::on(service.in_process(), None);
    let sent = input::send(&client, &mut input, snapshot, true, &Limits::none()).await?;
    let left_out = input::left_out_warning(&sent.left_out);
    for warning in input.warnings(true).into_iter().chain(left_out) {
        warn!("{warning}");
    }
    info!(
        snapshot,
        revision = sent.answer.revision,
        loaded = input.loaded(),
        skipped = input.skipped(),
        "loaded files"
    );
    Ok(())
}

/// The default maximum age of a snapshot that is fed from a cluster. It is three times the age that
/// the snapshot reaches in normal operation.
const MAX_AGE: Duration = Duration::from_secs(120);

/// Flags about the cluster that a server watches.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct WatchSettings {
    /// Watch a Kubernetes cluster, and keep a snapshot equal to it.
    ///
    /// It is that of the current context of the kubeconfig or, in a pod without one,
    /// the cluster around it, by its service account. The server is ready once it is
    /// listed. docs/kubernetes.md says what is read and which permissions that needs.
    #[arg(
        long,
        env = "EVENKEEL_KUBERNETES",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    kubernetes: bool,

    /// Snapshot that --kubernetes feeds.
    #[arg(
        long,
        env = "EVENKEEL_KUBERNETES_SNAPSHOT",
        value_name = "NAME",
        default_value = "default"
    )]
    kubernetes_snapshot: String,

    /// The scheduler's configuration, whose default constraints hold.
    ///
    /// A file with a KubeSchedulerConfiguration, or a ConfigMap with one:
    /// configmap/NAMESPACE/NAME, or configmap/NAMESPACE/NAME:KEY where the key is not
    /// config.yaml.
    /// Without it Kubernetes' own hold, as they do for its scheduler.
    #[arg(
        long,
        env = "EVENKEEL_KUBERNETES_SCHEDULER_CONFIG",
        value_name = "FILE|configmap/NAMESPACE/NAME"
    )]
    kubernetes_scheduler_config: Option<DefaultsSource>,

    /// Kubeconfig to use instead of KUBECONFIG or ~/.kube/config.
    #[arg(long, env = "EVENKEEL_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig instead of its current one.
    #[arg(long, env = "EVENKEEL_CONTEXT", value_name = "NAME", add = completions::contexts())]
    context: Option<String>,
}

impl WatchSettings {
    /// Returns the feed by these settings and those of the server, if it watches a cluster. Adds its
    /// snapshot to the expected ones.
    ///
    /// # Errors
    /// The settings contradict each other.
    fn plan(self, config: &mut Config, loaded: Option<&str>) -> Result<Option<ClusterFeed>> {
        let defaults = self.kubernetes_scheduler_config;
        if !self.kubernetes {
            anyhow::ensure!(
                defaults.is_none(),
                "--kubernetes-scheduler-config needs --kubernetes"
            );
            return Ok(None);
        }
        let snapshot = api::parse_snapshot_name(&self.kubernetes_snapshot)
            .map_err(|faults| anyhow::anyhow!("--kubernetes-snapshot: {faults}"))?;
        anyhow::ensure!(
            loaded != Some(&*snapshot),
            "--load and --kubernetes both for the snapshot {snapshot}: load into another with \
             --snapshot, or watch into another with --kubernetes-snapshot"
        );
        let target = Target {
            kubeconfig: self.kubeconfig,
            context: self.context,
        };
        let plan = ClusterFeed::new(target, &snapshot, defaults.unwrap_or_default());
        config.trust.default_max_age(&snapshot, MAX_AGE);
        if !config.expect_snapshot.contains(&snapshot) {
            config.expect_snapshot.push(snapshot);
        }
        Ok(Some(plan))
    }
}

/// Starts a feed. It ends when the service drains, which is safe because each batch is applied as a
/// whole or not at all. If several servers share a log, only one of them feeds a snapshot.
///
/// # Errors
/// A thread cannot be started.
fn start(feed: ClusterFeed, server: &Started) -> std::io::Result<()> {
    let snapshot = feed.counts.snapshot().to_owned();
    let (service, lease) = server.feeding(&snapshot);
    let draining = service.draining();
    let rpc = Client::on(service.in_process(), None).rpc();
    let feed = feed.of_server(lease.clone(), server.refused(&snapshot));
    run_in_thread(async move || {
        tokio::select! {
            never = feed.run(rpc) => match never {},
            () = draining => {}
        }
        if let Some(lease) = lease {
            lease.release().await;
        }
    })
}

/// Flags of `evenkeel feed`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  evenkeel feed --context staging --snapshot staging --server evenkeel.example:443")]
pub(crate) struct FeedCluster {
    /// Kubeconfig to use instead of KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; else its current one, else the cluster around
    /// this pod
    #[arg(long, value_name = "NAME", add = completions::contexts())]
    context: Option<String>,

    /// The scheduler's configuration, whose default constraints hold
    ///
    /// A file with a KubeSchedulerConfiguration, or a ConfigMap with one:
    /// configmap/NAMESPACE/NAME, or configmap/NAMESPACE/NAME:KEY where the key is not
    /// config.yaml.
    /// Without it Kubernetes' own hold, as they do for its scheduler.
    #[arg(long, value_name = "FILE|configmap/NAMESPACE/NAME")]
    scheduler_config: Option<DefaultsSource>,

    #[command(flatten)]
    name: args::SnapshotName,

    #[command(flatten)]
    server: args::Server,
}

impl FeedCluster {
    /// Feeds until it is stopped.
    pub(crate) async fn run(self) -> Result<Exit> {
        logging::init(LogFormat::Auto, None).context("logging")?;
        let client = self.server.client().await?;
        let target = Target {
            kubeconfig: self.kubeconfig,
            context: self.context,
        };
        // Faults of the kubeconfig are reported at once. The feed would try without end.
        target.clone().connect(OnRefusal::Retry).await?;
        let defaults = self.scheduler_config.unwrap_or_default();
        let feed = ClusterFeed::new(target, &self.name.snapshot, defaults);
        match feed.run(client.rpc()).await {}
    }
}
