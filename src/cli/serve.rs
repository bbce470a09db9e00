//! `evenkeel serve`: hands over to the server.

use std::process::ExitCode;

use crate::server;

/// Runs the server until it is told to stop.
pub(crate) fn run(config: server::Config) -> ExitCode {
    server::run(config)
}
