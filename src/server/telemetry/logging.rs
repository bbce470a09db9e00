//! Log lines on standard error: for people, or JSON for machines.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::{Subscriber, error, info};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, reload};

use crate::server::config::telemetry::{LogFormat, parse_filter};
use crate::visible;

/// The most detailed levels at which some libraries may log, whatever level is set. Beyond that they
/// log the bytes that they read or send, and so the content of pods, tokens and headers.
const LIBRARIES: [(&str, LevelFilter); 9] = [
    ("kube_client", LevelFilter::OFF),
    ("kube_runtime", LevelFilter::OFF),
    ("async_nats", LevelFilter::OFF),
    ("h2", LevelFilter::INFO),
    ("hyper", LevelFilter::INFO),
    ("hyper_util", LevelFilter::INFO),
    ("rustls", LevelFilter::INFO),
    ("tonic", LevelFilter::INFO),
    ("tower", LevelFilter::INFO),
];

/// The longest text of a line. A longer one is cut, in JSON each of its values.
const MAX_TEXT_BYTES: usize = 16 << 10;

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
    let (heard, handle) = reload::Layer::new(EnvFilter::new(&filter));
    let libraries = Targets::new().with_default(LevelFilter::TRACE);
    tracing_subscriber::registry()
        .with(lines(is_json(format)).with_filter(libraries.with_targets(LIBRARIES)))
        .with(heard)
        .init();
    Ok(Levels {
        current: Mutex::new(filter),
        reload: Box::new(move |filter| handle.reload(filter)),
    })
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
            true => visible::json(&json_within(text)).into_owned(),
            false => visible::styled(&text_within(text).replace('\n', "\\n")),
        };
        shown + "\n"
    }
}

/// The beginning of a text that is too long.
fn text_within(text: &str) -> Cow<'_, str> {
    match text.floor_char_boundary(MAX_TEXT_BYTES) {
        end if end == text.len() => text.into(),
        end => format!("{}…", &text[..end]).into(),
    }
}

/// A line of JSON whose values are not too long.
fn json_within(line: &str) -> Cow<'_, str> {
    if line.len() <= MAX_TEXT_BYTES {
        return line.into();
    }
    let fields: serde_json::Result<serde_json::Map<_, _>> = serde_json::from_str(line);
    let mut fields = fields.unwrap_or_default();
    for value in fields.values_mut() {
        if let serde_json::Value::String(text) = value {
            *text = text_within(text).into_owned();
        }
    }
    serde_json::Value::from(fields).to_string().into()
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

    #[test]
    fn a_line_is_cut_and_stays_json() {
        let long = "é\n".repeat(MAX_TEXT_BYTES);
        let line = serde_json::json!({ "message": long, "count": 7 }).to_string();
        let cut: serde_json::Value = serde_json::from_str(&json_within(&line)).expect("JSON");
        assert_eq!(cut["count"], 7);
        let message = cut["message"].as_str().expect("text");
        assert!(message.len() < MAX_TEXT_BYTES + 4 && message.ends_with('…'));
        assert!(text_within(&long).len() < MAX_TEXT_BYTES + 4);
    }
}
