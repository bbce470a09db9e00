//! Topology spread decisions over gRPC: where things may and should run so
//! that they stay evenly spread.
//!
//! Data flows one way: `api` takes requests apart and calls `spread`, which
//! decides on what `snapshot` holds by the rules of `matching`. `server` and
//! `cli` stand in front of `api`. See `docs/architecture.md`.

pub mod access;
pub mod account;
pub mod api;
pub mod cli;
pub mod decision_log;
pub mod explain;
mod manifest;
pub mod matching;
pub mod proto;
pub mod recount;
pub mod server;
pub mod snapshot;
pub mod spread;
pub mod store;
pub mod synth;
pub mod verify;
pub mod visible;
