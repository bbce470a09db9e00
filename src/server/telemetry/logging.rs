//! Log lines on standard error: for people, or JSON for machines.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Subscriber, error};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::server::config::telemetry::{LogFormat, parse_filter};
use crate::visible;

/// The most detailed levels at which some libraries may log, whatever level is set. Beyond that they
/// log the bytes that they read or send, and so the content of pods, tokens and headers.
const LIBRARIES: [(&str, LevelFilter); 8] = [
    ("kube_client", LevelFilter::OFF),
    ("async_nats", LevelFilter::OFF),
    ("h2", LevelFilter::INFO),
    ("hyper", LevelFilter::INFO),
    ("hyper_util", LevelFilter::INFO),
    ("rustls", LevelFilter::INFO),
    ("tonic", LevelFilter::INFO),
    ("tower", LevelFilter::INFO),
];

/// `RUST_LOG` is not a filter.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG: invalid value {value:?}: {reason}")]
pub struct FilterError {
    value: String,
    reason: String,
}

/// Starts logging, once for the process: with `filter`, or `RUST_LOG`, or
/// `info`.
///
/// # Panics
/// When logging was started before.
pub fn init(format: LogFormat, filter: Option<&str>) -> Result<(), FilterError> {
    let filter = match filter {
        Some(filter) => filter.to_owned(),
        None => filter_from_environment()?,
    };
    let libraries = Targets::new().with_default(LevelFilter::TRACE);
    tracing_subscriber::registry()
        .with(lines(is_json(format)).with_filter(libraries.with_targets(LIBRARIES)))
        .with(EnvFilter::new(filter))
        .init();
    Ok(())
}

/// Writes events as lines on standard error.
fn lines<S>(are_json: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer()
        // An internal error would be written to standard error, and panic if that is closed. A
        // server outlives the reader of its log.
        .log_internal_errors(false)
        .with_ansi(!are_json && io::stderr().is_terminal())
        .with_writer(move || VisibleLines { are_json });
    match are_json {
        true => lines.json().flatten_event(true).boxed(),
        false => lines.boxed(),
    }
}

/// Writes log lines to standard error, one for each call. What is not visible is escaped: texts of
/// other programs may be in a line, also in those of libraries.
struct VisibleLines {
    are_json: bool,
}

impl Write for VisibleLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = self.shown(&String::from_utf8_lossy(line));
        io::stderr().write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl VisibleLines {
    /// A line as it is written.
    fn shown(&self, line: &str) -> String {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let shown = match self.are_json {
            true => visible::json(text).into_owned(),
            false => visible::styled(&text.replace('\n', "\\n")),
        };
        shown + "\n"
    }
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
    let line = tracing_subscriber::registry().with(lines(true));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_visible_in_a_line_is_escaped() {
        let text = VisibleLines { are_json: false };
        let shown = text.shown("\u{1b}[2mhere\u{1b}[0m a\nb\u{202e}\u{1b}[2J\n");
        assert_eq!(shown, "\u{1b}[2mhere\u{1b}[0m a\\nb\\u{202e}\\u{1b}[2J\n");
        let json = VisibleLines { are_json: true };
        let shown = json.shown("{\"error\":\"a\\nb\u{202e}\u{9b}\"}\n");
        assert_eq!(shown, "{\"error\":\"a\\nb\\u202e\\u009b\"}\n");
    }
}
