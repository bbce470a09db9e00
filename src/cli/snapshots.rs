//! `evenkeel snapshot`: what a server holds.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::args;
use super::exit::Exit;
use super::load::Restore;
use super::output;
use super::render;
use super::save::Save;
use crate::proto::v1::{
    DeleteSnapshotRequest, GetSnapshotRequest, ListSnapshotsRequest, ListSnapshotsResponse,
};

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// List the snapshots of a server
    List(List),
    /// Describe one snapshot
    Get(Get),
    /// Write a snapshot to a file that `restore` and --load read back
    Save(Save),
    /// Replace a snapshot with a saved one
    Restore(Restore),
    /// Delete a snapshot
    Delete(Delete),
}

impl Snapshot {
    /// Does it.
    pub(crate) async fn run(self) -> Result<Exit> {
        match self {
            Snapshot::List(list) => list.run().await,
            Snapshot::Get(get) => get.run().await,
            Snapshot::Save(save) => save.run().await,
            Snapshot::Restore(restore) => restore.run().await,
            Snapshot::Delete(delete) => delete.run().await,
        }
    }
}

/// Flags of `evenkeel snapshot list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    server: args::Server,

    #[command(flatten)]
    output: args::Output,
}

impl List {
    async fn run(self) -> Result<Exit> {
        let client = self.server.client().await?;
        let mut all = ListSnapshotsResponse::default();
        loop {
            let request = ListSnapshotsRequest {
                page_size: 0,
                page_token: std::mem::take(&mut all.next_page_token),
            };
            let page = client
                .call(request, |mut rpc, request| async move {
                    rpc.list_snapshots(request).await
                })
                .await?;
            all.snapshots.extend(page.snapshots);
            all.next_page_token = page.next_page_token;
            if all.next_page_token.is_empty() {
                break;
            }
        }
        let text = self.output.output.render(
            &all,
            |all| render::snapshots(&all.snapshots),
            |all| {
                all.snapshots
                    .iter()
                    .map(|snapshot| snapshot.name.clone())
                    .collect()
            },
        )?;
        output::print(&text)?;
        Ok(Exit::Success)
    }
}

/// Flags of `evenkeel snapshot get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    state: args::State,

    #[command(flatten)]
    output: args::Output,
}

impl Get {
    async fn run(self) -> Result<Exit> {
        let client = self.state.client().await?;
        let request = GetSnapshotRequest {
            snapshot: self.state.snapshot().to_owned(),
        };
        let answer = client
            .call(request, |mut rpc, request| async move {
                rpc.get_snapshot(request).await
            })
            .await?;
        let text = self.output.output.render(
            &answer.snapshot.unwrap_or_default(),
            render::snapshot,
            |snapshot| vec![snapshot.name.clone()],
        )?;
        output::print(&text)?;
        Ok(Exit::Success)
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
        let request = DeleteSnapshotRequest {
            snapshot: self.name.clone(),
            epoch: String::new(),
        };
        client
            .call(request, |mut rpc, request| async move {
                rpc.delete_snapshot(request).await
            })
            .await?;
        output::print(&format!("snapshot {:?} deleted\n", self.name))?;
        Ok(Exit::Success)
    }
}
