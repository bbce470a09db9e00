//! `evenkeel load`: loads files into a snapshot.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::args::{self, dumped_kinds};
use super::exit::Exit;
use super::input::{self, Input};
use super::output;
use super::render;
use crate::snapshot::Limits;

/// Flags of `evenkeel load`.
#[derive(Debug, Args)]
#[command(after_help = concat!("\
Examples:
  kubectl get ", dumped_kinds!(), " \\
    -A -o json | evenkeel load -
  evenkeel load cluster.yaml --default-constraints system
  evenkeel load manifests/ --merge --snapshot staging

It reads Node, Namespace, Pod, Service, ReplicaSet, StatefulSet, ReplicationController,
PodDisruptionBudget, PersistentVolumeClaim, PersistentVolume and StorageClass.
Other kinds are skipped and counted in the summary."))]
pub(crate) struct LoadCommand {
    /// Files of kubectl's JSON or YAML, directories of such files, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    target: args::ServedSnapshot,

    #[command(flatten)]
    rules: args::RulesFlags,

    /// Add to what the snapshot holds
    ///
    /// Without this flag the files replace the whole state at once. With it,
    /// each batch of 1,000 objects becomes visible by itself.
    #[arg(long)]
    merge: bool,

    /// Replace the snapshot even if the files hold nothing that decisions read
    #[arg(long)]
    allow_empty: bool,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl LoadCommand {
    /// Reads the files and sends them.
    pub(crate) async fn run(self) -> Result<Exit> {
        let mut input = Input::read(&self.files, &self.rules, None)?;
        let nothing = input.objects.changes.is_empty()
            && input.default_constraints.is_none()
            && self.rules.kubernetes_version.is_none();
        anyhow::ensure!(
            self.allow_empty || !nothing,
            "no object that decisions read in the files (skipped: {}); --allow-empty loads \
             nothing all the same",
            match input.skipped().as_str() {
                "" => "nothing",
                skipped => skipped,
            }
        );
        let (target, replace) = (&self.target, !self.merge);
        let (client, snapshot) = (target.server.client().await?, &target.name.snapshot);
        input.warn(replace);
        let sent = input::send(&client, &mut input, snapshot, replace, &Limits::none()).await?;
        sent.warning().iter().for_each(|it| output::warn(it));
        self.output.print(
            &sent,
            || render::loaded(&sent, snapshot, &input.loaded(), &input.skipped()),
            || vec![snapshot.clone()],
        )?;
        Ok(Exit::Success)
    }
}
