//! `evenkeel completions` and `evenkeel man`: scripts by which shells complete commands and flags, and
//! manual pages of all commands.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use super::exit::Exit;
use super::output;

/// The variable by which a shell's script asks for completions.
const ASKED: &str = "_EVENKEEL_COMPLETE";

/// Flags of `evenkeel completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
The script asks the program, which offers commands and flags, and with --load, --context,
--kubeconfig or --from-cluster, the namespaces and objects of those files or that cluster.

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
    /// Writes the script of a shell.
    pub(crate) fn run(self) -> Result<Exit> {
        let mut script = Vec::new();
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell.to_string());
        let shell = shell.expect("each shell that can be named is built in");
        shell.write_registration(ASKED, "evenkeel", "evenkeel", "evenkeel", &mut script)?;
        output::print_bytes(&script)?;
        Ok(Exit::Success)
    }
}

/// Completes a command line, if a shell's script asks for it. Returns whether a script asked.
pub(super) fn complete(
    commands: impl Fn() -> Command,
    args: &[OsString],
) -> Result<bool, clap::Error> {
    let current = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(commands).var(ASKED);
    asked.try_complete(args.iter().cloned(), current.as_deref())
}

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
