//! The `evenkeel` binary.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evenkeel::{api, server};

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
    match server::config::parse::<Cli>(std::env::args_os()) {
        Ok(Cli {
            command: Command::Serve(config),
        }) => serve(*config),
        Err(error) => ExitCode::from(error.report()),
    }
}

fn serve(config: server::Config) -> ExitCode {
    let filter = config.log.log_level.as_deref();
    if let Err(error) = server::logging::init(config.log.log_format, filter) {
        eprintln!("error: {error}");
        return ExitCode::from(server::config::ParseError::BAD_CONFIGURATION);
    }
    let runtime = tokio::runtime::Runtime::new().expect("the system starts threads");
    let served = runtime.block_on(server::serve(config, |_: api::Service| async {
        Ok::<_, std::io::Error>(())
    }));
    // Calls that did not end in time must not keep the process.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
