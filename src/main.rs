//! The `evenkeel` binary.

use std::ffi::OsString;
use std::process::ExitCode;

use evenkeel::cli::{self, Cli};

/// A third less work than the system's allocator for feeds, more for large
/// answers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = cli::complete(&args) {
        return code;
    }
    match cli::parse::<Cli>(args) {
        Ok(cli) => cli.run(),
        Err(error) => ExitCode::from(error.report()),
    }
}
