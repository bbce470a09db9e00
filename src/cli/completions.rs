//! `evenkeel completions`: what a shell needs to complete commands and flags.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::Exit;
use super::output;

/// Flags of `evenkeel completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel completions bash > ~/.local/share/bash-completion/completions/evenkeel
  evenkeel completions zsh > \"${fpath[1]}/_evenkeel\"
  evenkeel completions fish > ~/.config/fish/completions/evenkeel.fish")]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Writes the script for a command line.
    pub(crate) fn run(self, commands: &mut Command) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, commands, "evenkeel", &mut script);
        output::print_bytes(&script)?;
        Ok(Exit::Success)
    }
}
