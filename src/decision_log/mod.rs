//! The decision log: questions and answers, one JSON object per line, for
//! people and for `evenkeel admin replay` (`docs/decision-log.md`).
//!
//! A decision puts its record into a bounded queue and never waits: a record
//! that does not fit is dropped and counted. A separate thread writes.

mod log;
mod record;

pub use log::{DecisionLog, LogCounts, Pending, Settings, Writer};
pub use record::{AnswerDifference, Brief, Line, LoggedRequest};
