//! Log lines on standard error: for people, or JSON for machines.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use parking_lot::Mutex;
use tracing::{error, info};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

use super::log_lines::{LogLines, may_be_heard};
use crate::server::config::telemetry::{LogFormat, parse_filter};
use crate::visible;

/// The levels of the log, which can be changed while the program runs.
pub struct Levels {
    current: Mutex<String>,
    reload: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
}

impl Levels {
    /// The filter in force.
    pub fn current(&self) -> String {
        self.current.lock().clone()
    }

    /// Replaces the filter in force.
    ///
    /// # Errors
    /// The fault of the filter; the previous one stays in force.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        let filter = parse_filter(filter)?;
        let mut current = self.current.lock();
        (self.reload)(EnvFilter::new(&filter)).map_err(|error| error.to_string())?;
        info!(from = *current, to = filter, "log level changed");
        *current = filter;
        Ok(())
    }
}

/// `RUST_LOG` is not a filter.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG: invalid value {value:?}: {reason}")]
pub struct FilterError {
    value: String,
    reason: String,
}

/// Starts logging, once for the process: with `filter`, or `RUST_LOG`, or
/// `info`. The returned handle changes the level.
///
/// # Panics
/// When logging was started before.
pub fn init(format: LogFormat, filter: Option<&str>) -> Result<Levels, FilterError> {
    let filter = match filter {
        Some(filter) => filter.to_owned(),
        None => filter_from_environment()?,
    };
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&filter))
        .with_ansi(terminal)
        // An internal error would be written to standard error, and panic if that is closed. A
        // server outlives the reader of its log.
        .log_internal_errors(false)
        .event_format(LogLines {
            are_json: is_json(format),
        })
        .with_writer(io::stderr)
        .with_filter_reloading();
    let handle = lines.reload_handle();
    lines.finish().with(filter_fn(may_be_heard)).init();
    let reload: Box<dyn Fn(_) -> _ + Send + Sync> = Box::new(move |filter| handle.reload(filter));
    Ok(Levels {
        current: Mutex::new(filter),
        reload,
    })
}

/// Writes to standard error why the server cannot start or go on: as a line of the log if that is
/// JSON, whatever its level, else in the form of a command's error.
pub fn fatal(format: LogFormat, why: &dyn fmt::Display) {
    if !is_json(format) {
        let why = why.to_string();
        // If standard error is closed, there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: {}", visible::lines(&why));
        return;
    }
    let line = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .event_format(LogLines { are_json: true })
        .with_writer(io::stderr)
        .finish();
    tracing::subscriber::with_default(line, || error!("{why}"));
}

fn is_json(format: LogFormat) -> bool {
    match format {
        LogFormat::Json => true,
        LogFormat::Human => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    }
}

fn filter_from_environment() -> Result<String, FilterError> {
    match std::env::var("RUST_LOG") {
        Ok(value) if !value.is_empty() => {
            parse_filter(&value).map_err(|reason| FilterError { value, reason })
        }
        _ => Ok("info".into()),
    }
}
