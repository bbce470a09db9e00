//! The decision log.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, bytes, plain};
use crate::decision_log::DecisionLog;

const DECISIONS: Family = plain(
    "decision_log_decisions",
    "Decisions that were to be logged: written to the file (logged), or lost (dropped)",
);
const ERRORS: Family = plain(
    "decision_log_write_errors",
    "Attempts to open, write or rotate a file of the decision log that failed; each is made again",
);
const WRITTEN: Family = bytes("decision_log_written", "Written to the decision log");

/// The counts of a log.
#[derive(Debug)]
pub(super) struct Logged(pub(super) DecisionLog);

impl Collector for Logged {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let results = [("logged", counts.logged), ("dropped", counts.dropped)];
        let results = results.map(|(result, count)| ([("result", result)], count));
        DECISIONS.counters(&mut encoder, results)?;
        ERRORS.counter(&mut encoder, counts.write_errors)?;
        WRITTEN.counter(&mut encoder, counts.bytes)
    }
}
