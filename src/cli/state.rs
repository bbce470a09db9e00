//! `evenkeel admin state`: checks state directories that no server has open.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::exit::Exit;
use super::{output, render};
use crate::store::{self, StoreError};
use crate::visible;

/// A command about a state directory.
#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Read and verify a whole state directory, and list its snapshots
    Check(Directory),
}

/// A state directory.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory must not be in use by a server.

Exit codes:
  0  the directory is whole
  1  it is damaged, or has lost its last updates
  2  it is no state directory, or of a newer version, in use, or unreadable")]
pub(crate) struct Directory {
    /// Directory of `evenkeel serve --state-dir`
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl StateCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<Exit> {
        match self {
            Self::Check(it) => match store::check(&it.directory) {
                Ok(found) => {
                    output::print(&render::states(&found.snapshots).text())?;
                    output::print(&render::loss(found.loss))?;
                    Ok(Exit::of(found.loss.is_none()))
                }
                Err(error @ StoreError::Damaged { .. }) => {
                    output::print(&format!("{}\n", visible::text(&error.to_string())))?;
                    Ok(Exit::Negative)
                }
                Err(error) => Err(error.into()),
            },
        }
    }
}
