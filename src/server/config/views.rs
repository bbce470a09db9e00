//! Unused views.

use std::time::Duration;

/// How long views are kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct ViewSettings {
    /// Drop views that were not used for this long.
    ///
    /// Every change of their pods and nodes has to update them.
    #[arg(
        long,
        env = "EVENKEEL_VIEW_IDLE",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = humantime::parse_duration
    )]
    pub view_idle: Duration,
}
