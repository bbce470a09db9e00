//! What the server logs.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// What is logged, and how. Logs go to standard error.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogSettings {
    /// How log lines look: `auto` is `human` on a terminal, else `json`.
    #[arg(
        long,
        env = "EVENKEEL_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Auto
    )]
    pub log_format: LogFormat,

    /// Least important level to log: error, warn, info, debug, trace or off.
    ///
    /// Or a list with levels for parts of the program, such as
    /// `info,h2=debug`. The default is the value of RUST_LOG, or `info`.
    #[arg(
        long,
        env = "EVENKEEL_LOG_LEVEL",
        value_name = "FILTER",
        value_parser = parse_filter
    )]
    pub log_level: Option<String>,
}

/// How log lines look.
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
