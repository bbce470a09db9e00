//! The settings file, `.evenkeel-lint.toml`: where custom resources have constraints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::manifest::{ConstraintPlace, CustomResources};
use crate::toml_fault::TomlFault;

/// The name of the file. It is searched in the current directory and its ancestors.
const FILE_NAME: &str = ".evenkeel-lint.toml";

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    /// More places of constraints in custom resources.
    #[serde(default)]
    resources: Vec<ConstraintPlace>,
}

/// The places of constraints in custom resources: those that are known, and those of a named file, else of
/// the nearest settings file.
pub(super) fn custom_resources(named: Option<&Path>) -> Result<CustomResources> {
    let file = match named.map(Path::to_owned).or_else(find) {
        None => SettingsFile::default(),
        Some(path) => read(&path).with_context(|| path.display().to_string())?,
    };
    Ok(CustomResources::with(file.resources))
}

fn read(path: &Path) -> Result<SettingsFile> {
    let text = fs::read_to_string(path)?;
    let file: SettingsFile =
        toml::from_str(&text).map_err(|error| TomlFault::new(&text, &error))?;
    for (index, row) in file.resources.iter().enumerate() {
        if let Some(fault) = row.fault() {
            anyhow::bail!("resources[{index}]: {fault}");
        }
    }
    Ok(file)
}

fn find() -> Option<PathBuf> {
    let current = std::env::current_dir().ok()?;
    let above = current.ancestors();
    let mut files = above.map(|directory| directory.join(FILE_NAME));
    files.find(|path| path.is_file())
}
