//! A Kubernetes list as a file, one object a line, written as its parts come.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::manifest;
use crate::proto::v1::{ExportSummary, UpdateSnapshotRequest};

/// A list that is being written: to standard output, or aside and renamed at
/// the end, so that the file is whole or not there.
pub(crate) struct ListFile {
    path: PathBuf,
    /// The file that is written aside; none for standard output.
    aside: Option<NamedTempFile>,
    output: BufWriter<Box<dyn Write>>,
    separator: &'static str,
    objects: u64,
}

impl ListFile {
    /// A list without items yet; `-` is standard output.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let writing = || format!("writing {}", path.display());
        let aside = match path == Path::new("-") {
            true => None,
            false => Some(new_file_beside(path).with_context(writing)?),
        };
        let output: Box<dyn Write> = match &aside {
            None => Box::new(io::stdout()),
            Some(file) => Box::new(file.as_file().try_clone().with_context(writing)?),
        };
        let mut output = BufWriter::new(output);
        write!(output, r#"{{"apiVersion":"v1","kind":"List","items":["#)?;
        Ok(Self {
            path: path.to_owned(),
            aside,
            output,
            separator: "\n",
            objects: 0,
        })
    }

    /// Says where the objects are from.
    pub(crate) fn add_origin(&mut self, saved: &manifest::SavedOrigin) -> Result<()> {
        self.add_item(&saved.to_item())
    }

    /// Says what the objects are in all: nothing may follow.
    pub(crate) fn add_end(&mut self, summary: &ExportSummary) -> Result<()> {
        self.add_item(&manifest::end_item(summary))
    }

    /// Adds the objects and default constraints of an update.
    pub(crate) fn add(&mut self, update: &UpdateSnapshotRequest) -> Result<()> {
        self.objects += update.changes.len() as u64;
        for item in manifest::items_of(update)? {
            self.add_item(&item)?;
        }
        Ok(())
    }

    fn add_item(&mut self, item: &serde_json::Value) -> Result<()> {
        write!(self.output, "{}{item}", self.separator)?;
        self.separator = ",\n";
        Ok(())
    }

    /// Ends the list: how many objects it has, and whether it is in a file
    /// and not on standard output.
    pub(crate) fn finish(mut self) -> Result<(u64, bool)> {
        writeln!(self.output, "\n]}}")?;
        self.output.flush()?;
        let is_file = self.aside.is_some();
        if let Some(file) = self.aside {
            let writing = || format!("writing {}", self.path.display());
            file.as_file().sync_all().with_context(writing)?;
            file.persist(&self.path).with_context(writing)?;
        }
        Ok((self.objects, is_file))
    }
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
