//! `evenkeel feed`: keeps a snapshot of a server elsewhere equal to a cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::args;
use super::exit::Exit;
use super::live_names;
use crate::kubernetes::{ClusterFeed, DefaultsSource, Reads, SnapshotSink, Target};
use crate::server::config::LogFormat;
use crate::server::logging;

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
    #[arg(long, value_name = "NAME", add = live_names::contexts())]
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
        target.clone().connect(Reads::WholeObjects).await?;
        let snapshot = self.name.snapshot;
        let counts = ClusterFeed::counts_of(&snapshot);
        let sink = SnapshotSink::new(client.rpc(), &snapshot);
        let defaults = self.scheduler_config.unwrap_or_default();
        match ClusterFeed::new(target, sink, defaults, counts, None)
            .run()
            .await {}
    }
}
