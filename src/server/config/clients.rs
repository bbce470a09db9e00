//! How much one client can ask of the server before it is another's turn.

use std::time::Duration;

use super::values::{count, positive_duration};
use crate::api::Load;

/// What keeps one client from starving others.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Clients")]
pub struct ClientSettings {
    /// Long decisions that run at once.
    ///
    /// The default is one per processor. Place, Explain and DescribeSpread may
    /// take long, and Filter and Score with an overlay, many candidates, or on
    /// a very large snapshot. Other decisions run at once.
    #[arg(
        long,
        env = "EVENKEEL_MAX_RUNNING_DECISIONS",
        value_name = "COUNT",
        value_parser = count
    )]
    pub max_running_decisions: Option<usize>,

    /// Long decisions that wait.
    ///
    /// The default is 16 per processor. One more is refused at once, so that
    /// its client can ask another server.
    #[arg(
        long,
        env = "EVENKEEL_MAX_WAITING_DECISIONS",
        value_name = "COUNT",
        value_parser = count
    )]
    pub max_waiting_decisions: Option<usize>,

    /// Feeds (StreamSnapshot) open at once, over all connections.
    ///
    /// Feeds may stay open for days and are not concurrent calls. One caller
    /// may have no more feeds than it leaves free.
    #[arg(
        long,
        env = "EVENKEEL_MAX_FEEDS",
        value_name = "COUNT",
        default_value_t = 1_024,
        value_parser = count
    )]
    pub max_feeds: usize,

    /// Health watches open at once, over all connections.
    ///
    /// Each takes some 20 KB. Health checks do not count: they have their own
    /// slots and are always answered. One caller may have no more watches than
    /// it leaves free.
    #[arg(
        long,
        env = "EVENKEEL_MAX_HEALTH_WATCHES",
        value_name = "COUNT",
        default_value_t = 4_096,
        value_parser = count
    )]
    pub max_health_watches: usize,

    /// Reflection streams open at once, over all connections.
    ///
    /// One caller may have no more streams than it leaves free.
    #[arg(
        long,
        env = "EVENKEEL_MAX_REFLECTION_STREAMS",
        value_name = "COUNT",
        default_value_t = 256,
        value_parser = count
    )]
    pub max_reflection_streams: usize,

    /// Calls and feeds of one connection at once; more wait in the client.
    #[arg(
        long,
        env = "EVENKEEL_MAX_CALLS_PER_CONNECTION",
        value_name = "COUNT",
        default_value_t = 1_000,
        value_parser = calls
    )]
    pub max_calls_per_connection: u32,

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

impl ClientSettings {
    /// How many decisions that may take long run and wait.
    pub fn load(&self) -> Load {
        let usual = Load::default();
        Load {
            running: self.max_running_decisions.unwrap_or(usual.running),
            waiting: self.max_waiting_decisions.unwrap_or(usual.waiting),
        }
    }
}

fn calls(text: &str) -> Result<u32, &'static str> {
    let calls = count(text)?;
    u32::try_from(calls).map_err(|_| "expected a whole number from 1 to 4294967295")
}
