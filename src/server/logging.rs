//! Log lines on standard error: for people, or JSON for machines.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `human` on a terminal, else `json`.
    Auto,
    /// One line of text, coloured on a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

/// `RUST_LOG` is not a filter.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG: invalid value {value:?}: {reason}")]
pub struct FilterError {
    value: String,
    reason: String,
}

/// Starts logging, once for the process: `filter`, or what `RUST_LOG` says, or
/// `info`.
///
/// # Panics
/// When logging was started before.
pub fn init(format: Format, filter: Option<&str>) -> Result<(), FilterError> {
    let filter = match filter {
        Some(filter) => filter.to_owned(),
        None => filter_from_environment()?,
    };
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(io::stderr)
        .with_ansi(terminal);
    match format {
        Format::Auto if terminal => lines.init(),
        Format::Human => lines.init(),
        Format::Auto | Format::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}

fn filter_from_environment() -> Result<String, FilterError> {
    match std::env::var("RUST_LOG") {
        Ok(value) if !value.is_empty() => match parse_filter(&value) {
            Ok(filter) => Ok(filter),
            Err(reason) => Err(FilterError { value, reason }),
        },
        _ => Ok("info".into()),
    }
}

/// Checks a log filter. A bare word must be a level: otherwise a misspelt
/// level would name a part of the program that does not exist, and silence
/// all others.
pub(super) fn parse_filter(text: &str) -> Result<String, String> {
    for part in text.split(',') {
        let bare = !part.contains(['=', '[']);
        if bare && part.trim().parse::<LevelFilter>().is_err() {
            return Err(format!("{part:?} is not a level"));
        }
    }
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
