//! Topology spread decisions over gRPC: where pods may and should run so that they stay evenly
//! spread.
//!
//! Data flows one way: `api` reads requests and calls `spread`, which decides on the state of
//! `snapshot` by the rules of `matching`. `server` and `cli` use `api`. See `docs/architecture.md`.
//!
//! Without features the crate decides in process: no tokio, no tonic. `docs/building.md` lists the
//! additions of each feature.

#[cfg(feature = "server")]
pub mod access;
pub mod account;
#[cfg(feature = "server")]
pub mod api;
#[cfg(feature = "server")]
mod backoff;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "server")]
pub mod decision_log;
pub mod explain;
#[cfg(feature = "cli")]
mod kubernetes;
pub mod limits;
#[cfg(feature = "server")]
pub mod log;
#[cfg(feature = "cli")]
mod manifest;
pub mod matching;
#[cfg(feature = "cli")]
mod misspelt;
pub mod plan;
pub mod proto;
#[cfg(feature = "server")]
pub mod replica;
#[cfg(feature = "server")]
pub mod server;
pub mod snapshot;
pub mod spread;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "server")]
pub mod tasks;
#[cfg(feature = "server")]
pub mod verify;
#[cfg(feature = "server")]
pub mod visible;
