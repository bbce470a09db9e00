//! A log inside the process, for tests: it keeps its promises, and breaks them
//! where [`Faults`] say so.

mod beside;
mod copies;
mod faults;
mod kept;
mod stale;
mod streams;

pub use faults::{Call, Fate, Faults, NextCall};
pub use kept::StaleLeader;
pub use streams::FakeLog;
