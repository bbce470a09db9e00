//! Kubernetes API servers: connecting to them, and listing what they hold.
//!
//! `connection` finds a cluster and reaches it, `resource` says what can be asked
//! for, `listing` lists it page by page. Objects are read by `manifest`, so
//! they are the same as those of files.

mod connection;
mod error;
mod listing;
mod resource;

pub(crate) use connection::{Cluster, Target};
pub(crate) use error::Error;
pub(crate) use listing::{OnProgress, Progress, Selection};
pub(crate) use resource::Resource;
