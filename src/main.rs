//! The `evenkeel` binary.

use std::process::ExitCode;

use evenkeel::cli::{self, Cli};

/// A third less work than the system's allocator for feeds, more for large
/// answers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::parse::<Cli>(std::env::args_os()) {
        Ok(cli) => cli.run(),
        Err(error) => ExitCode::from(error.report()),
    }
}
