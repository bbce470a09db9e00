//! How long one client can keep the server waiting.

use std::time::Duration;

use super::values::positive_duration;

/// What keeps one client from starving others.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Clients")]
pub struct ClientSettings {
    /// How long a request may take to arrive.
    ///
    /// For a stream: its first message, and then each message from its first
    /// byte to its last. A reflection stream that is silent for so long is
    /// ended. A feed may be silent.
    #[arg(
        long,
        env = "EVENKEEL_RECEIVE_TIMEOUT",
        value_name = "DURATION",
        default_value = "30s",
        value_parser = positive_duration
    )]
    pub receive_timeout: Duration,

    /// How long a client may leave an answer, or 256 KiB of it, unread.
    ///
    /// After that its connection is closed: HTTP/2 has no milder way to take
    /// an answer back.
    #[arg(
        long,
        env = "EVENKEEL_SEND_TIMEOUT",
        value_name = "DURATION",
        default_value = "1m",
        value_parser = positive_duration
    )]
    pub send_timeout: Duration,
}
