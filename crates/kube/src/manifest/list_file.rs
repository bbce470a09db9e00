//! A Kubernetes list as a file with one object per line, which is written object by object.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::object::items_of;
use super::saved::SavedOrigin;
use evenkeel_core::proto::v1::UpdateSnapshotRequest;
use evenkeel_log::visible;

/// A list that is being written: to standard output, or to a temporary file that is renamed at the
/// end, so that the file is complete or does not exist.
pub struct ListFile {
    path: PathBuf,
    /// The temporary file; `None` for standard output.
    aside: Option<NamedTempFile>,
    output: BufWriter<Box<dyn Write>>,
    separator: &'static str,
    objects: u64,
}

impl ListFile {
    /// A list without items; `-` is standard output.
    pub fn create(path: &Path) -> io::Result<Self> {
        let aside = match path == Path::new("-") {
            true => None,
            false => Some(new_file_beside(path).map_err(writing(path))?),
        };
        let output: Box<dyn Write> = match &aside {
            None => Box::new(io::stdout()),
            Some(file) => Box::new(file.as_file().try_clone().map_err(writing(path))?),
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

    /// Adds the item with the origin of the objects.
    pub fn add_origin(&mut self, saved: &SavedOrigin) -> io::Result<()> {
        self.add_item(&saved.to_item())
    }

    /// Adds the objects and default constraints of an update.
    pub fn add(&mut self, update: &UpdateSnapshotRequest) -> io::Result<()> {
        self.objects += update.changes.len() as u64;
        for item in items_of(update)? {
            self.add_item(&item)?;
        }
        Ok(())
    }

    fn add_item(&mut self, item: &serde_json::Value) -> io::Result<()> {
        let item = item.to_string();
        let item = match &self.aside {
            Some(_) => Cow::Borrowed(&*item),
            // Standard output may be a terminal, so control characters are escaped.
            None => visible::json(&item),
        };
        write!(self.output, "{}{item}", self.separator)?;
        self.separator = ",\n";
        Ok(())
    }

    /// Ends the list. Returns the number of its objects, and true if the list is in a file, not on
    /// standard output.
    pub fn finish(mut self) -> io::Result<(u64, bool)> {
        writeln!(self.output, "\n]}}")?;
        self.output.flush()?;
        let is_file = self.aside.is_some();
        if let Some(file) = self.aside {
            let synced = file.as_file().sync_all();
            let renamed = synced.and_then(|()| Ok(file.persist(&self.path)?));
            renamed.map_err(writing(&self.path))?;
        }
        Ok((self.objects, is_file))
    }
}

/// Returns a function that adds to an error which file was being written.
fn writing(path: &Path) -> impl Fn(io::Error) -> io::Error {
    let path = path.display();
    move |error| io::Error::new(error.kind(), format!("writing {path}: {error}"))
}

/// A file that can be renamed to `path`, with the permissions that the user's mask allows.
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
