//! The server's front door.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::api;

/// Flags of `evenkeel serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct Config {
    /// Load this file or directory before becoming ready; repeatable
    #[arg(long, value_name = "FILE")]
    pub load: Vec<PathBuf>,
}

/// Runs the server until it is told to stop.
pub fn run<P, F, E>(_: Config, _: P) -> ExitCode
where
    P: FnOnce(api::Service) -> F,
    F: Future<Output = Result<(), E>>,
{
    ExitCode::SUCCESS
}
