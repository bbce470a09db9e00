//! Topology spread decisions in process: where pods may and should run so that they stay evenly
//! spread.
//!
//! Data flows one way: `snapshot` keeps objects and counts by the rules of `matching`, `spread`
//! decides on one state of it, `plan` looks for places of many pods, and `explain` says why.
//!
//! Nothing here does I/O, starts a thread or knows tokio. With the feature `json` the messages read
//! and write proto-JSON, and `client` adds the gRPC client.

pub mod account;
pub mod explain;
pub mod limits;
pub mod matching;
pub mod plan;
pub mod proto;
pub mod snapshot;
pub mod spread;
#[cfg(feature = "json")]
pub mod verify;
