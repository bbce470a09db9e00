//! `evenkeel snapshot`: what a server holds.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::args;
use super::backend::{Rpc, all_pages};
use super::exit::Exit;
use super::load::Restore;
use super::output;
use super::render;
use super::save::Save;
use super::source;
use crate::proto::v1::{DeleteSnapshotRequest, ListSnapshotsRequest, ListSnapshotsResponse};

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// List the snapshots of a server
    List(ListSnapshots),
    /// Describe one snapshot
    Get(Get),
    /// Write a snapshot to a file that `restore` and --load read back
    Save(Save),
    /// Replace a snapshot with a saved one
    Restore(Restore),
    /// Delete a snapshot
    Delete(Delete),
}

impl SnapshotCommand {
    /// Does it.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            SnapshotCommand::List(list) => list.run().await,
            SnapshotCommand::Get(get) => get.run().await,
            SnapshotCommand::Save(save) => save.run().await,
            SnapshotCommand::Restore(restore) => restore.run().await,
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
            let page = client.call(request, Rpc::list_snapshots).await?;
            Ok((page.snapshots, page.next_page_token))
        });
        let all = ListSnapshotsResponse {
            snapshots: snapshots.await?,
            ..Default::default()
        };
        self.output.print(
            &all,
            |all| render::snapshots(&all.snapshots),
            |all| all.snapshots.iter().map(|one| one.name.clone()).collect(),
        )?;
        Ok(Exit::Success)
    }
}

/// Flags of `evenkeel snapshot get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Name of the snapshot; or as --snapshot names it
    #[arg(id = source::SNAPSHOT_ARGUMENT, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl Get {
    async fn run(self) -> Result<Exit> {
        let state = self.state.named(self.name);
        let snapshot = state.client().await?.describe(state.snapshot()).await?;
        self.output
            .print(&snapshot, render::snapshot, |it| vec![it.name.clone()])?;
        Ok(Exit::Success)
    }
}

/// Flags of `evenkeel snapshot delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Name of the snapshot; or as --snapshot names it
    #[arg(value_name = "NAME", required_unless_present = "snapshot")]
    name: Option<String>,

    /// Name of the snapshot
    ///
    /// Nothing else names it here: what is deleted must be said.
    #[arg(short, long, value_name = "NAME", conflicts_with = "name")]
    snapshot: Option<String>,

    #[command(flatten)]
    server: args::Server,
}

impl Delete {
    async fn run(self) -> Result<Exit> {
        let client = self.server.client().await?;
        let name = self.name.or(self.snapshot).unwrap_or_default();
        let request = DeleteSnapshotRequest {
            snapshot: name.clone(),
            epoch: String::new(),
        };
        client.call(request, Rpc::delete_snapshot).await?;
        output::print(&format!("snapshot {name:?} deleted\n"))?;
        Ok(Exit::Success)
    }
}
