//! Kubernetes API servers: connecting to them, listing what they hold, and keeping
//! snapshots equal to that.
//!
//! `target` finds a cluster, `credentials` says what is presented to it, `connection`
//! reaches it, and `renewal` reads credentials again when they change. `resource` says what can be asked
//! for, `listing` lists it page by page. Objects are read by `manifest`, so
//! they are the same as those of files.
//!
//! `feed` keeps a snapshot right: `watch` follows each kind with `kube`'s watcher,
//! in the encoding of `protobuf`, `progress` notices where it is ahead of its API
//! server, `following` finds what is new by what
//! is `known`, `pending` makes batches of it, and `sink` sends them.

mod connection;
mod credentials;
mod defaults;
mod error;
mod eviction;
mod feed;
mod following;
mod guard;
mod known;
mod listing;
mod pending;
mod progress;
mod protobuf;
mod pulse;
mod renewal;
mod resource;
mod sink;
mod target;
mod watch;

pub(crate) use connection::{ClusterClient, Reads};
pub(crate) use defaults::DefaultsSource;
pub(crate) use error::Error;
pub(crate) use eviction::Eviction;
pub(crate) use feed::ClusterFeed;
pub(crate) use listing::{ListProgress, ListedCluster};
pub(crate) use resource::ApiResource;
pub(crate) use sink::SnapshotSink;
pub(crate) use target::Target;
