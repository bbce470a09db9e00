//! The decision log: what was asked and what was answered, one JSON object a
//! line, for people to look at and for `evenkeel replay` to decide again
//! (`docs/decision-log.md`).
//!
//! A decision hands its record to a bounded queue and never waits: what does
//! not fit is dropped and counted. A thread of its own writes.

mod brief;
mod files;
mod log;
mod queue;
mod record;
mod writer;

pub use brief::{Brief, ConstraintBrief, Difference};
pub use files::FileSettings;
pub use log::{DecisionLog, Pending, Settings};
pub use queue::LogCounts;
pub use record::{DecisionRecord, Line, LineError, LoggedRequest};
pub use writer::Writer;
