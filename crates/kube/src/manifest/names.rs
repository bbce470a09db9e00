//! The names of the objects in files, for a person who types them.

use std::path::Path;

use indicatif::ProgressBar;

use super::document::for_each_item;
use super::error::ManifestError;
use super::item::text;
use super::source::{InputSource, expand};
use evenkeel_core::matching::names;

/// Kind, namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedObject {
    /// The kind.
    pub kind: String,
    /// The namespace; empty for an object without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Passes the name of every object of a file or directory to `take`, until a file cannot be read.
/// Standard input is not read.
///
/// # Errors
/// The first file that cannot be read.
pub fn for_each_name(path: &Path, mut take: impl FnMut(NamedObject)) -> Result<(), ManifestError> {
    let sources = expand(&[path.to_path_buf()])?;
    for source in sources
        .iter()
        .filter(|it| **it != InputSource::StandardInput)
    {
        for_each_item(source, 0, &ProgressBar::hidden(), &mut |item| {
            let metadata = &item.value["metadata"];
            take(NamedObject {
                kind: text(&item.value, "kind").to_owned(),
                namespace: names::namespace_or_default(text(metadata, "namespace")).to_owned(),
                name: text(metadata, "name").to_owned(),
            });
            Ok(())
        })?;
    }
    Ok(())
}
