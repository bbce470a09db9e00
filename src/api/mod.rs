//! The part that knows gRPC. It turns requests into plain calls, results into responses, and errors
//! into statuses.
//!
//! - A call: `service` names it, `request_context` finds its caller and deadline, and alone checks
//!   what the caller may do, `error` alone chooses codes, reasons and details.
//! - A question: `questions` checks it, waits for its revision (`read_your_writes`) and decides in
//!   its `dialect`; `answer` encodes the answer, and has the facts about it for metrics and the
//!   decision log. `decision_stream` asks the questions of a stream.
//! - Other reads: `place`, `placing`, `describe`, `removals`, `rebalance`, `nodes`, `export`.
//! - Changes: `update`, `reservations`.
//! - Threads: `executor` runs long work, and shares places among callers.
//!
//! # Where work runs
//!
//! **Small decisions** run on the thread where they arrived, by one rule (`questions`): the number of
//! entries of all lists of the question, times the number of objects that it can reach, is below a
//! constant. These are the nodes, what its namespace has and the terms of running pods, and with
//! claims the storage. A question with an overlay, or about several namespaces, is never small. The
//! rule knows nothing of algorithms, so a new one is under it without anybody thinking of it. Where
//! one looks at more items than a product of the two explains, it ends with `Stopped::Large`.
//!
//! **All other decisions** run in one pool of threads of low priority (`executor`), where callers
//! take turns. They hold a revision of the state, and no lock. An **overlay** is applied to a clone
//! of the state, which is dropped after the decision.
//!
//! **The end.** Every loop over what a client can make long goes through one iterator
//! (`Deadline::each`), which looks at the deadline and at the caller every few thousand items. A
//! decision that has to end returns `Stopped`, and no number of it is used. Messages are decoded
//! from bytes that end when the caller is gone.
//!
//! **Shares.** Long decisions, changes, exports and decoding each have a `FairLimiter`. One caller
//! has at most half of its places. Further work waits, and callers take turns.
//!
//! **Requests** of more than 32 KiB are decoded and checked on threads of lower priority (`Beside`),
//! where callers take turns. Feeds and exports run there, too.
//!
//! **Changes** are checked and applied on a thread for blocking work, where they wait for the turn of
//! their snapshot and for a disk. A **replace** builds a state of its own and publishes it. Every read
//! holds one state: decisions, **exports** and **verification**.

// Numbers from clients are never added, multiplied or subtracted unchecked.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod answer;
mod decision_stream;
mod describe;
mod dialect;
mod error;
mod executor;
mod export;
mod fleet;
mod kubernetes;
mod nodes;
mod place;
mod placing;
mod questions;
mod read_your_writes;
mod rebalance;
mod removals;
mod request;
mod request_context;
mod reservations;
mod service;
mod update;

pub use answer::{Decision, Size};
pub use decision_stream::{ObserveQuestions, QuestionObserver, STREAMED_METHODS};
pub use error::Error;
pub(crate) use error::{MIN_REVISION_NOT_REACHED, NODE_NOT_FOUND, WORKLOAD_NOT_FOUND};
pub use executor::{Beside, CallSlots, CallerKey, LARGE_REQUEST, WorkPlace, lower_priority, until};
pub use export::summary as describe;
pub use request::parse_snapshot_name;
pub use request_context::{CallerGone, last_moment};
pub use service::{MAX_MESSAGE_BYTES, Service};
pub use update::MAX_GROUP;
