//! The `evenkeel` binary.

use std::process::ExitCode;

use clap::Parser;
use evenkeel::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
