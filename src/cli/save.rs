//! `evenkeel snapshot save`: a snapshot as a Kubernetes list.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::backend::Client;
use super::exit::Exit;
use super::export::Export;
use super::output;
use super::source;
use crate::explain::number;
use crate::manifest::{ListFile, SavedOrigin};
use crate::proto::v1::ExportSummary;

/// Flags of `evenkeel snapshot save`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file is a JSON list: Kubernetes objects with the fields that decisions read, one object per
line, the default constraints and the revision. It ends with the number of objects and a SHA-256. A
file without them is refused. The file appears only when it is complete. `snapshot restore`, `load`,
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
    /// Exports and writes the list as its parts arrive.
    pub(crate) async fn run(self) -> Result<Exit> {
        let client = self.state.client().await?;
        let mut file = ListFile::create(&self.file)?;
        let summary = self.save(&client, &mut file).await;
        let (summary, revision) = summary.context("nothing was saved")?;
        file.add_end(&summary)?;
        let (objects, is_file) = file.finish()?;
        if is_file {
            output::print(&format!(
                "snapshot {:?}, revision {revision}: {} objects written to {}\n",
                self.state.snapshot(),
                number(objects),
                self.file.display()
            ))?;
        }
        Ok(Exit::Success)
    }

    /// Writes all objects: what they are in all, and their revision.
    async fn save(&self, client: &Client, file: &mut ListFile) -> Result<(ExportSummary, i64)> {
        let mut export = Export::of(client, self.state.snapshot()).await?;
        let mut revision = None;
        while let Some(part) = export.next().await? {
            if revision.is_none() {
                file.add_origin(&SavedOrigin {
                    snapshot: self.state.snapshot().to_owned(),
                    epoch: part.epoch,
                    revision: part.revision,
                })?;
                revision = Some(part.revision);
            }
            file.add(&part.update)?;
        }
        Ok((export.summary(), revision.unwrap_or(0)))
    }
}
