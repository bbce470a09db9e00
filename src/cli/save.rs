//! `evenkeel snapshot save`: a snapshot as a Kubernetes list.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanCount;
use tempfile::NamedTempFile;

use super::args;
use super::backend::Client;
use super::errors::Refused;
use super::exit::Exit;
use super::manifest;
use super::output;
use crate::proto::v1::ExportSnapshotRequest;

/// Flags of `evenkeel snapshot save`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file is a JSON list of Kubernetes objects with the fields that decisions read, one object a
line, and the default constraints. It is written aside and renamed, so that it is whole or not
there. `snapshot restore`, `load`, `serve --load` and --load read it.

Examples:
  evenkeel snapshot save saved.json
  evenkeel snapshot save - --snapshot staging | gzip > staging.json.gz
  evenkeel snapshot save lean.json --load cluster.json")]
pub(crate) struct Save {
    /// File to write, or - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    state: args::State,
}

impl Save {
    /// Exports and writes.
    pub(crate) async fn run(self) -> Result<Exit> {
        let writing = || format!("writing {}", self.file.display());
        let client = self.state.client().await?;
        let file = match self.file == Path::new("-") {
            true => None,
            false => Some(new_file_beside(&self.file).with_context(writing)?),
        };
        let output: Box<dyn Write> = match &file {
            None => Box::new(io::stdout()),
            Some(file) => Box::new(file.as_file().try_clone().with_context(writing)?),
        };
        let saved = self.export(&client, BufWriter::new(output)).await?;
        if let Some(file) = file {
            file.as_file().sync_all().with_context(writing)?;
            file.persist(&self.file).with_context(writing)?;
            output::print(&format!(
                "snapshot {:?}, revision {}: {} objects written to {}\n",
                self.state.snapshot(),
                saved.revision,
                HumanCount(saved.objects),
                self.file.display()
            ))?;
        }
        Ok(Exit::Success)
    }

    /// Writes the list as its parts arrive.
    async fn export(&self, client: &Client, mut output: impl Write) -> Result<Saved> {
        let request = ExportSnapshotRequest {
            snapshot: self.state.snapshot().to_owned(),
        };
        let failed = |status| Refused::or_unreachable(status, Vec::new());
        let answer = client
            .rpc()
            .export_snapshot(request)
            .await
            .map_err(failed)?;
        let mut parts = answer.into_inner();

        let mut saved = Saved::default();
        let mut separator = "\n";
        write!(output, r#"{{"apiVersion":"v1","kind":"List","items":["#)?;
        while let Some(part) = parts.message().await.map_err(failed)? {
            saved.revision = part.revision;
            let update = part.update.unwrap_or_default();
            saved.objects += update.changes.len() as u64;
            for item in manifest::items_of(&update)? {
                write!(output, "{separator}{item}")?;
                separator = ",\n";
            }
        }
        writeln!(output, "\n]}}")?;
        output.flush()?;
        Ok(saved)
    }
}

/// What was written.
#[derive(Default)]
struct Saved {
    revision: i64,
    objects: u64,
}

/// A file that can be renamed to `path`, with the permissions that the user's
/// mask leaves.
fn new_file_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".evenkeel-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory)
}
