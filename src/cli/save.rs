//! `evenkeel snapshot save`: a snapshot as a Kubernetes list.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::args;
use super::errors::RefusedCall;
use super::exit::Exit;
use super::output;
use crate::api::ExportSum;
use crate::explain::number;
use crate::manifest::{ListFile, SavedOrigin};
use crate::proto::v1::ExportSnapshotRequest;

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
    state: args::SnapshotSource,
}

impl Save {
    /// Exports and writes the list as its parts arrive.
    pub(crate) async fn run(self) -> Result<Exit> {
        let client = self.state.client().await?;
        let mut file = ListFile::create(&self.file)?;
        let request = ExportSnapshotRequest {
            snapshot: self.state.snapshot().to_owned(),
        };
        let failed = |status| RefusedCall::or_unreachable(status, Vec::new());
        let answer = client.rpc().export_snapshot(request).await;
        let mut parts = answer.map_err(failed)?.into_inner();
        let mut saved: Option<SavedOrigin> = None;
        let (mut sum, mut summary) = (ExportSum::default(), None);
        while let Some(part) = parts.message().await.map_err(failed)? {
            if saved.is_none() {
                let origin = SavedOrigin {
                    snapshot: self.state.snapshot().to_owned(),
                    epoch: part.epoch,
                    revision: part.revision,
                };
                file.add_origin(&origin)?;
                saved = Some(origin);
            }
            let update = part.update.unwrap_or_default();
            sum.add_update(&update);
            file.add(&update)?;
            summary = part.summary;
        }
        let summary = summary.context(
            "the export was cut short: the server did not sum it up (one of an earlier version \
             cannot); nothing was saved",
        )?;
        anyhow::ensure!(
            summary == sum.finish(),
            "the export is not what the server says that it sent; nothing was saved. It may know \
             fields that this version does not"
        );
        file.add_end(&summary)?;
        let (objects, is_file) = file.finish()?;
        let revision = saved.map_or(0, |saved| saved.revision);
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
}
