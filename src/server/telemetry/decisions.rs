//! The decision log of the server, if there is one.

use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;

use crate::decision_log::{DecisionLog, Writer};
use crate::server::config::Config;
use crate::server::error::Error;
use crate::tasks;

/// The time that the log may take to be written out at the end.
const CLOSE: Duration = Duration::from_secs(5);

/// The decision log of the server, if there is one.
pub struct Decisions {
    pub log: Option<DecisionLog>,
    writer: Option<Writer>,
}

impl Decisions {
    /// Starts the log that the settings ask for.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let started = config.decision_log.settings().map(DecisionLog::start);
        let (log, writer) = started.transpose().map_err(Error::Runtime)?.unzip();
        Ok(Self { log, writer })
    }

    /// Writes out the waiting records.
    pub async fn close(self) {
        let Some(writer) = self.writer else { return };
        let closing = tasks::spawn_blocking(move || writer.close());
        if timeout(CLOSE, closing).await.is_err() {
            warn!("cutting off the decision log");
        }
    }
}
