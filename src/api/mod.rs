//! The one room that knows gRPC: requests in, plain calls, responses out,
//! errors to status.

mod answer;
mod background;
mod base;
mod client;
mod deadline;
mod decide;
mod decision;
mod describe;
mod dialect;
mod error;
mod export;
mod feed;
mod feeding;
mod fleet;
mod kubernetes;
mod lanes;
mod logged;
mod measured;
mod opening;
mod permission;
mod place;
mod request;
mod reservations;
mod retry;
mod service;
pub mod slots;
mod streamed;
mod sum;
mod update;
mod verify;
mod wish;
mod workload_rank;

pub use background::Background;
pub use base::Service;
pub use client::{MAX_MESSAGE_BYTES, Transport};
pub use deadline::last as last_moment;
pub use error::Error;
pub use export::summary as describe;
pub use feeding::MAX_GROUP;
pub use measured::{Decision, Size};
pub use request::parse_snapshot_name;
pub use sum::ExportSum;
pub use verify::log as log_mismatches;
