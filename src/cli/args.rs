//! Flags that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::backend::Client;
use super::endpoint::Endpoint;
use super::output::{self, Format};
use super::render::Page;
use super::source::SnapshotSource;
use crate::manifest::{self, LoadedObjects};
use crate::matching::KubernetesVersion;

/// The kinds of a cluster's dump, for `kubectl get`. The documents recommend the same.
macro_rules! dumped_kinds {
    () => {
        "nodes,namespaces,pods,services,deployments,replicasets,statefulsets,rc,pvc,pv,sc,pdb"
    };
}
pub(crate) use dumped_kinds;

/// The server's address, and the timeout of calls to it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Server {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,

    /// How long to wait for an answer, e.g. 500ms, 10s or 2m
    ///
    /// It is the gRPC deadline of each call. Loading and saving have no
    /// deadline.
    #[arg(
        long,
        env = "EVENKEEL_TIMEOUT",
        value_name = "DURATION",
        default_value = "30s",
        value_parser = humantime::parse_duration
    )]
    pub(crate) timeout: Duration,
}

impl Server {
    /// A connected client of the server.
    pub(crate) async fn client(&self) -> Result<Client> {
        let transport = self.endpoint.connect(self.timeout).await?;
        Ok(Client::on(transport, Some(self.timeout)))
    }
}

/// The revision that is waited for.
#[derive(Debug, Clone, Args)]
pub(crate) struct MinRevision {
    /// Wait until the snapshot has reached this revision
    ///
    /// `evenkeel load` prints the revision that it made. The wait ends with
    /// --timeout.
    #[arg(
        long,
        value_name = "REVISION",
        value_parser = clap::value_parser!(i64).range(0..),
        allow_negative_numbers = true,
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) min_revision: i64,
}

/// The name of a snapshot.
#[derive(Debug, Clone, Args)]
pub(crate) struct SnapshotName {
    /// Name of the snapshot
    #[arg(
        short,
        long,
        env = "EVENKEEL_SNAPSHOT",
        value_name = "NAME",
        default_value = "default"
    )]
    pub(crate) snapshot: String,
}

/// A snapshot on a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServedSnapshot {
    #[command(flatten)]
    pub(crate) server: Server,

    #[command(flatten)]
    pub(crate) name: SnapshotName,
}

/// Settings that apply to all pods of a snapshot.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RulesFlags {
    /// Constraints of pods that have none of their own: `system`, `none` or a file
    ///
    /// `system` means Kubernetes' own: hostname with max skew 3 and zone with
    /// max skew 5, both ScheduleAnyway. These hold by default for what --load
    /// loads, as they do in kube-scheduler; a saved snapshot has its own. Elsewhere
    /// the snapshot keeps those that it has. A file (JSON or YAML, - for standard
    /// input) holds a list of constraints, or a KubeSchedulerConfiguration.
    #[arg(long, value_name = "FILE|system|none")]
    pub(crate) default_constraints: Option<String>,

    /// Version of Kubernetes whose rules decide, such as 1.36
    ///
    /// The default is the newest version that is known, for a saved snapshot the one that
    /// it was saved with, and for a cluster the version that it runs.
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<KubernetesVersion>,
}

impl RulesFlags {
    /// Returns whether any of these settings is given.
    pub(crate) fn are_set(&self) -> bool {
        self.default_constraints.is_some() || self.kubernetes_version.is_some()
    }
}

/// How to write the answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputFlag {
    /// How to write the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

impl OutputFlag {
    /// The number of domains to ask for of a plan: a person sees those before and after side by side, so
    /// all are needed.
    pub(crate) fn max_domains_of_plan(&self) -> Option<i32> {
        self.output.is_for_person().then_some(0)
    }

    /// Writes `answer` to standard output. `page` and `names` return it in formats for a person, and
    /// by name.
    pub(crate) fn print(
        &self,
        answer: &dyn erased_serde::Serialize,
        page: impl FnOnce() -> Page,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<()> {
        output::print(&self.output.text(answer, page, names)?)
    }
}

/// Which state an answer is of, and how it is written.
#[derive(Debug, Args)]
pub(crate) struct AnswerFlags {
    #[command(flatten)]
    pub(crate) at_least: MinRevision,

    #[command(flatten)]
    pub(crate) state: SnapshotSource,

    #[command(flatten)]
    pub(crate) output: OutputFlag,
}

/// Reads the objects of files. Objects that occur more than once are reported.
pub(crate) fn read_files(files: &[PathBuf]) -> Result<LoadedObjects> {
    let sources = manifest::expand(files)?;
    let objects = manifest::read_objects(sources, None)?;
    for line in &objects.repeated {
        output::warn(line);
    }
    Ok(objects)
}
