//! A log inside the process, for tests: it keeps the promises of an engine, except where [`Faults`]
//! break them.

mod beside;
mod faults;
mod kept;
mod stale;
mod streams;

pub use faults::{Call, Fate, Faults};
pub use kept::StaleLeader;
pub use streams::FakeLog;
