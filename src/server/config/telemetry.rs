//! The settings of what the server shows: its log, traces of calls, and the decision log.

use std::path::PathBuf;

use http::Uri;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use super::settings::FixedSettings;
use crate::decision_log::Settings;

/// The settings of the log. Logs go to standard error.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogSettings {
    /// How log lines look: `auto` is `human` on a terminal, else `json`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Least important level to log: error, warn, info, debug, trace or off.
    ///
    /// Or a list with levels for parts of the program, such as
    /// `info,h2=debug`. The default is the value of RUST_LOG, or `info`.
    #[arg(long, value_name = "FILTER", value_parser = parse_filter)]
    pub log_level: Option<String>,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// `human` on a terminal, else `json`.
    Auto,
    /// One line of text, coloured on a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

/// Checks a log filter. A bare word must be a level: otherwise a misspelt
/// level would name a part of the program that does not exist, and silence
/// all others.
pub fn parse_filter(text: &str) -> Result<String, String> {
    for part in text.split(',') {
        let bare = !part.contains(['=', '[']);
        if bare && part.trim().parse::<LevelFilter>().is_err() {
            return Err(format!("{part:?} is not a level"));
        }
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// Traces of calls.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operation")]
pub struct TraceSettings {
    /// Send traces of calls to this OpenTelemetry collector, over OTLP/gRPC.
    ///
    /// For example http://localhost:4317. Off by default. A call with a
    /// `traceparent` becomes part of its caller's trace. Attributes of the
    /// sender come from OTEL_RESOURCE_ATTRIBUTES.
    #[arg(long, value_name = "URL", value_parser = collector)]
    pub otlp_endpoint: Option<Uri>,

    /// Share of the calls without a `traceparent` to trace, from 0 to 1.
    ///
    /// For other calls the caller decides. A span takes as long as a short
    /// decision. Spans that the collector does not accept are dropped.
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio)]
    pub trace_ratio: f64,
}

fn collector(text: &str) -> Result<Uri, &'static str> {
    match text.parse::<Uri>() {
        Ok(uri) if uri.scheme_str() == Some("http") && uri.authority().is_some() => Ok(uri),
        _ => Err("expected http://HOST:PORT"),
    }
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("expected a number from 0 to 1"),
    }
}

/// The file to which decisions are logged, and the share of them that is logged.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Decision log")]
pub struct DecisionLogSettings {
    /// Log decisions to this file, one JSON object per line.
    ///
    /// The log holds the questions, with labels of pods and names of nodes,
    /// and the answers in brief. `evenkeel admin replay` repeats the decisions.
    /// At 100 MiB FILE becomes FILE.1, FILE.1 becomes FILE.2, and so on. Five
    /// files are kept.
    #[arg(long, value_name = "FILE")]
    pub decision_log: Option<PathBuf>,

    /// Share of the decisions to log: more than 0, up to 1.
    ///
    /// A logged decision takes some 40 % more CPU. The default keeps that
    /// below 10 % of the whole.
    #[arg(long, value_name = "RATE", default_value_t = 0.1, value_parser = rate)]
    pub decision_log_sample: f64,
}

impl DecisionLogSettings {
    /// Returns the settings of a log, if decisions are logged.
    pub fn settings(&self, fixed: &FixedSettings) -> Option<Settings> {
        Some(Settings {
            sample: self.decision_log_sample,
            path: self.decision_log.clone()?,
            max_bytes: fixed.decision_log_bytes as u64,
            max_files: fixed.decision_log_files,
        })
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("expected a number above 0, up to 1"),
    }
}
