//! `evenkeel snapshot` lists, describes, saves and deletes snapshots, and `evenkeel verify` compares a
//! server's counts with a recount.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::backend::{Client, all_pages};
use super::exit::Exit;
use super::{args, output, render, source, stored};
use crate::explain::plural;
use crate::manifest::{ListFile, SavedOrigin};
use crate::proto::v1::{
    DeleteSnapshotRequest, ExportSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    VerifySnapshotRequest,
};

/// A command about snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// List the snapshots of a server
    List(ListSnapshots),
    /// Describe one snapshot
    Get(Get),
    /// Write a snapshot to a file that `load` and --load read back
    Save(Save),
    /// Delete a snapshot
    Delete(Delete),
}

impl SnapshotCommand {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            SnapshotCommand::List(list) => list.run().await,
            SnapshotCommand::Get(get) => get.run().await,
            SnapshotCommand::Save(save) => save.run().await,
            SnapshotCommand::Delete(delete) => delete.run().await,
        }
    }
}

/// Flags of `evenkeel snapshot list`.
#[derive(Debug, Args)]
pub(crate) struct ListSnapshots {
    #[command(flatten)]
    server: args::Server,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl ListSnapshots {
    async fn run(self) -> Result<Exit> {
        let client = self.server.client().await?;
        let snapshots = all_pages(async |page_token| {
            let request = ListSnapshotsRequest {
                page_size: 0,
                page_token,
            };
            let page = client.call(request).await?;
            Ok((page.snapshots, page.next_page_token))
        });
        let all = ListSnapshotsResponse {
            snapshots: snapshots.await?,
            ..Default::default()
        };
        let snapshots = &all.snapshots;
        self.output.print(
            &all,
            || render::snapshots(snapshots),
            || snapshots.iter().map(|one| one.name.clone()).collect(),
        )?;
        Ok(Exit::Success)
    }
}

/// Flags of `evenkeel snapshot get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl Get {
    async fn run(self) -> Result<Exit> {
        let state = self.state;
        let client = state.open().await?.client;
        let snapshot = client.describe(state.snapshot()).await?;
        let page = || render::snapshot(&snapshot);
        self.output
            .print(&snapshot, page, || vec![snapshot.name.clone()])?;
        Ok(Exit::Success)
    }
}

/// Flags of `evenkeel snapshot save`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file is a JSON list: Kubernetes objects with the fields that decisions read, one object per
line, the default constraints and the revision. The file appears only when it is complete. `load`,
`serve --load` and --load read it.

Examples:
  evenkeel snapshot save saved.json
  evenkeel snapshot save - --snapshot staging | gzip > staging.json.gz
  evenkeel snapshot save lean.json --load cluster.json")]
pub(crate) struct Save {
    /// File to write, or - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    state: source::SnapshotSource,
}

impl Save {
    /// Exports the snapshot, and writes its parts as they arrive.
    pub(crate) async fn run(self) -> Result<Exit> {
        let client = self.state.open().await?.client;
        let mut file = ListFile::create(&self.file)?;
        let saved = self.save(&client, &mut file).await;
        let revision = saved.context("nothing was saved")?;
        let (objects, is_file) = file.finish()?;
        if is_file {
            output::print(&format!(
                "snapshot {:?}, revision {revision}: {} written to {}\n",
                self.state.snapshot(),
                plural(objects, "object"),
                self.file.display()
            ))?;
        }
        Ok(Exit::Success)
    }

    /// Writes all objects. Returns the revision.
    async fn save(&self, client: &Client, file: &mut ListFile) -> Result<i64> {
        let (snapshot, mut revision) = (self.state.snapshot(), None);
        let take = |part: ExportSnapshotResponse| {
            let update = part.update.unwrap_or_default();
            if revision.is_none() {
                file.add_origin(&SavedOrigin {
                    snapshot: snapshot.to_owned(),
                    epoch: part.epoch,
                    revision: part.revision,
                    kubernetes_version: update.kubernetes_version.clone(),
                })?;
                revision = Some(part.revision);
            }
            Ok(file.add(&update)?)
        };
        stored::export(client, snapshot, take).await?;
        Ok(revision.unwrap_or(0))
    }
}

/// Flags of `evenkeel snapshot delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Name of the snapshot
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    server: args::Server,
}

impl Delete {
    async fn run(self) -> Result<Exit> {
        let client = self.server.client().await?;
        let name = self.name;
        let request = DeleteSnapshotRequest {
            snapshot: name.clone(),
            epoch: String::new(),
        };
        client.call(request).await?;
        output::print(&format!("snapshot {name:?} deleted\n"))?;
        Ok(Exit::Success)
    }
}

/// Flags of `evenkeel verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
The server recounts a copy of the snapshot from its nodes and pods, and compares the result with
every count that it keeps for quick answers. A difference is a bug in the server: please report it.

Examples:
  evenkeel verify
  evenkeel verify -s staging --timeout 5m        (large snapshots take a while)")]
pub(crate) struct VerifySnapshot {
    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl VerifySnapshot {
    /// Verifies the snapshot and prints the result.
    pub(crate) async fn run(self) -> Result<Exit> {
        let client = self.state.open().await?.client;
        let request = VerifySnapshotRequest {
            snapshot: self.state.snapshot().to_owned(),
        };
        let answer = client.call(request).await?;
        let names = || {
            let mismatches = answer.mismatches.iter();
            mismatches.map(|found| found.subject.clone()).collect()
        };
        let page = || render::verified(self.state.snapshot(), &answer);
        self.output.print(&answer, page, names)?;
        Ok(Exit::of(answer.mismatch_count == 0))
    }
}
