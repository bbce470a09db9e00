//! The server's front door.

use std::process::ExitCode;

/// Flags of `evenkeel serve`.
#[derive(Debug, clap::Args)]
pub struct Config {}

/// Runs the server until it is told to stop.
pub fn run(_: Config) -> ExitCode {
    ExitCode::SUCCESS
}
