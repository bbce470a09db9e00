//! The one room that knows gRPC: requests in, plain calls, responses out,
//! errors to status.
//!
//! - A call: `service` names it, `opening` finds its caller and deadline, `permission` alone
//!   checks what the caller may do, `error` alone chooses codes, reasons and details.
//! - A question: `asking` has it read (`asked`), waits for its revision (`reaching`) and
//!   decides (`decide`) in its `dialect`; `written` encodes the answer. `decision_stream`
//!   does so for streams, `together` for questions on one revision.
//! - Other reads: `place`, `describe`, `removals`, `export`, `verify`.
//! - Changes: `update`, `feed`, `reservations`; `retry` knows requests that come again.
//! - Where work runs: `slots` and `lanes` share it among callers, `background` has the
//!   threads of lower priority.

// What a client sends is never added, multiplied or subtracted unchecked.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod answer;
mod asked;
mod asking;
mod background;
mod base;
mod client;
mod deadline;
mod decide;
mod decision_stream;
mod describe;
mod dialect;
mod error;
mod export;
mod feed;
mod feeding;
mod fleet;
mod kept_questions;
mod kubernetes;
mod lanes;
mod logged;
mod measured;
mod node_names;
mod opening;
mod permission;
mod place;
mod reaching;
mod rebalance;
mod removals;
mod request;
mod reservations;
mod retry;
mod service;
pub mod slots;
mod step_charges;
mod stream_steps;
mod streamed;
mod sum;
mod together;
mod update;
mod verify;
mod wish;
mod workload_rank;
mod written;

pub use background::Background;
pub use base::Service;
pub use client::{MAX_MESSAGE_BYTES, Transport};
pub use deadline::last as last_moment;
pub use decision_stream::{ObserveQuestions, QuestionObserver, STREAMED_METHODS};
pub use error::Error;
#[cfg(feature = "cli")]
pub(crate) use error::{MIN_REVISION_NOT_REACHED, WORKLOAD_NOT_FOUND};
pub use export::summary as describe;
pub use feeding::MAX_GROUP;
pub use lanes::LARGE_REQUEST;
pub use measured::{Decision, Size};
pub use request::parse_snapshot_name;
pub use step_charges::StepCharges;
pub use sum::ExportSum;
pub use verify::log as log_mismatches;
