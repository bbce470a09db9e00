//! Clients of Kubernetes API servers, which list objects, keep snapshots equal to clusters, and
//! evict pods.
//!
//! `target` selects a cluster and connects to it, `credentials` has the credentials for it, and
//! `connection` is the client. `resource` defines the resources, and `listing` lists them page by page.
//! `crate::manifest` decodes the objects, in the same way as those in files.
//!
//! `feed` keeps a snapshot equal to a cluster. `watch` follows each kind, `following` finds what has
//! changed, `pending` collects changes in batches, and `sink` sends them.

mod connection;
mod counts;
mod credentials;
mod defaults;
mod error;
mod eviction;
mod feed;
mod following;
mod listing;
mod pending;
mod resource;
mod sink;
mod target;
mod watch;

pub use connection::{ClusterClient, OnRefusal};
pub use counts::{FeedCounts, KindCounts, ListReason, durations};
pub use defaults::DefaultsSource;
pub use error::Error;
pub use eviction::Eviction;
pub use feed::{ClusterFeed, run_in_thread};
pub use listing::{ATTEMPTS, ListProgress, ListedFor, NeededObjects, ObjectSelection};
pub use resource::{ApiResource, READ_BY_ADMISSION};
pub use sink::Transport;
pub use target::Target;
