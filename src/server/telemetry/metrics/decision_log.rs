//! The decision log: written and dropped records.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, bytes, plain};
use crate::decision_log::DecisionLog;

const LOGGED: Family = plain("decisions_logged", "Decisions written to the decision log");
const DROPPED: Family = plain(
    "decisions_not_logged",
    "Decisions that should be logged but are not: too many at once, or the file cannot be written",
);
const ERRORS: Family = plain(
    "decision_log_errors",
    "Attempts to open, write or rotate the decision log that failed",
);
const WRITTEN: Family = bytes("decision_log_written", "Bytes written to the decision log");

/// A server's decision log.
#[derive(Debug)]
pub(super) struct DecisionLogMetrics(pub(super) DecisionLog);

impl Collector for DecisionLogMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        LOGGED.counter(&mut encoder, counts.logged)?;
        DROPPED.counter(&mut encoder, counts.dropped)?;
        ERRORS.counter(&mut encoder, counts.write_errors)?;
        WRITTEN.counter(&mut encoder, counts.bytes)
    }
}
