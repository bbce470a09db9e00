//! What the server logs.

use crate::server::logging;

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
        default_value_t = logging::Format::Auto
    )]
    pub log_format: logging::Format,

    /// Least important level to log: error, warn, info, debug, trace or off.
    ///
    /// Or a list with levels for parts of the program, such as
    /// `info,h2=debug`. Without this setting RUST_LOG is read, in the same
    /// form, and without that `info` holds.
    #[arg(
        long,
        env = "EVENKEEL_LOG_LEVEL",
        value_name = "FILTER",
        value_parser = logging::parse_filter
    )]
    pub log_level: Option<String>,
}
