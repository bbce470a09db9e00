//! `evenkeel man`: writes manual pages of all commands.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};

use super::exit::Exit;

/// Flags of `evenkeel man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel man ~/.local/share/man/man1
  man evenkeel-explain")]
pub(crate) struct Man {
    /// Directory to write to, one page for each command; it is made if it is not there
    directory: PathBuf,
}

impl Man {
    /// Writes the pages of a command line.
    pub(crate) fn run(self, commands: Command) -> Result<Exit> {
        let writing = || format!("writing manual pages to {}", self.directory.display());
        std::fs::create_dir_all(&self.directory).with_context(writing)?;
        let commands = commands.disable_help_subcommand(true);
        clap_mangen::generate_to(commands, &self.directory).with_context(writing)?;
        Ok(Exit::Success)
    }
}
