//! The `evenkeel` binary.

use std::process::ExitCode;

use evenkeel::cli::Cli;
use evenkeel::server::config;

fn main() -> ExitCode {
    match config::parse::<Cli>(std::env::args_os()) {
        Ok(cli) => cli.run(),
        Err(error) => ExitCode::from(error.report()),
    }
}
