//! The service and the program of Evenkeel: topology spread decisions over gRPC.
//!
//! What decides is in the crate `evenkeel-core`, whose rooms this crate shows under its own name.
//! `api` reads requests and asks them, `server` is the port, and `cli` has the commands. See
//! `docs/architecture.md`.

pub mod access;
pub mod allocator;
pub mod api;
pub mod cli;
pub mod decision_log;
pub mod proto;
pub mod server;
pub mod toml_fault;

pub use evenkeel_core::{account, explain, limits, matching, plan, snapshot, spread, verify};
pub use evenkeel_kube::{kubernetes, manifest, misspelt};
pub use evenkeel_log::{self as log, backoff, replica, store, tasks, visible};
