//! Clients of Kubernetes API servers, which list objects, keep snapshots equal to clusters, and
//! evict pods.
//!
//! `target` selects a cluster, `credentials` has the credentials for it, `connection` is the
//! client, and `renewal` reads credentials again when they change. `resource` defines the
//! resources, and `listing` lists them page by page. `crate::manifest` decodes the objects, in the
//! same way as those in files.
//!
//! `feed` keeps a snapshot equal to a cluster. `watch` follows each kind with `kube`'s watcher,
//! and `progress` notices a watch that is ahead of its API server. `following` finds changes by comparison with the `known` objects, `pending` collects
//! them in batches, and `sink` sends them.

mod connection;
mod counts;
mod credentials;
mod defaults;
mod error;
mod eviction;
mod feed;
mod following;
mod known;
mod listing;
mod pending;
mod progress;
mod pulse;
mod renewal;
mod resource;
mod sink;
mod target;
mod watch;

pub use connection::{ClusterClient, OnRefusal};
pub use counts::{FeedCounts, KindCounts, ListReason, durations};
pub use defaults::DefaultsSource;
pub use error::Error;
pub use eviction::Eviction;
pub use feed::{FeedPlan, run_in_thread};
pub use listing::{
    ATTEMPTS, ClusterListing, ListProgress, ListedFor, NeededObjects, ObjectSelection,
};
pub use resource::{ApiResource, READ_BY_ADMISSION};
pub use sink::Transport;
pub use target::Target;
