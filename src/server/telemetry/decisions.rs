//! The decision log of the server, if one is wanted.

use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;

use crate::api;
use crate::decision_log::{DecisionLog, Writer};
use crate::server::config::Config;
use crate::server::error::Error;

/// How long the log may take to be written out at the end.
const CLOSE: Duration = Duration::from_secs(5);

/// A log and what writes it.
pub struct Decisions(Option<(DecisionLog, Writer)>);

impl Decisions {
    /// Starts the log that the settings ask for.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let started = config.decision_log.settings().map(DecisionLog::start);
        Ok(Self(started.transpose().map_err(Error::Runtime)?))
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<DecisionLog> {
        self.0.as_ref().map(|(log, _)| log.clone())
    }

    /// The service, logging its decisions if there is a log.
    pub fn of(&self, service: api::Service) -> api::Service {
        match self.log() {
            Some(log) => service.with_decision_log(log),
            None => service,
        }
    }

    /// Writes out what waits.
    pub async fn close(self) {
        let Some((_, writer)) = self.0 else { return };
        let closing = tokio::task::spawn_blocking(move || writer.close());
        if timeout(CLOSE, closing).await.is_err() {
            warn!("cutting off the decision log");
        }
    }
}
