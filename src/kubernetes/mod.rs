//! Kubernetes API servers: connects to them, lists their objects, and keeps snapshots equal to
//! them.
//!
//! `target` finds a cluster, `credentials` has the credentials for it, `connection` reaches it, and
//! `renewal` reads credentials again when they change. `resource` defines the resources, `listing`
//! lists them page by page. `manifest` reads the objects, so they are the same as those of files.
//!
//! `feed` keeps a snapshot right: `watch` follows each kind with `kube`'s watcher, in the encoding
//! of `protobuf`, `progress` notices where it is ahead of its API server, `following` finds changes
//! by what is `known`, `pending` makes batches of them, and `sink` sends them.

mod connection;
mod credentials;
mod defaults;
mod deletion_cost;
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
pub(crate) use deletion_cost::{CostWrite, DeletionCost};
pub(crate) use error::Error;
pub(crate) use eviction::Eviction;
pub(crate) use feed::ClusterFeed;
pub(crate) use listing::{ListProgress, ListedCluster};
pub(crate) use resource::ApiResource;
pub(crate) use sink::SnapshotSink;
pub(crate) use target::Target;
