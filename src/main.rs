//! The `evenkeel` binary.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evenkeel::server;

/// Topology spread decisions over gRPC.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve decisions over gRPC.
    Serve(Box<server::Config>),
}

fn main() -> ExitCode {
    match server::config::parse(std::env::args_os()) {
        Ok(Cli {
            command: Command::Serve(config),
        }) => server::run(*config, |_| async { Ok::<(), std::io::Error>(()) }),
        Err(error) => ExitCode::from(error.report()),
    }
}
