//! Clients of Kubernetes API servers, which list objects, keep snapshots equal to clusters, and
//! evict pods.
//!
//! `connection` selects a cluster and connects to it with its credentials, and `listing` lists its
//! resources page by page. `crate::manifest` decodes the objects, in the same way as those in files.
//!
//! `feed` keeps a snapshot equal to a cluster. `watch` follows each kind, `following` finds what has
//! changed and collects changes in batches, and `sink` sends them.

mod connection;
mod counts;
mod error;
mod eviction;
mod feed;
mod following;
mod listing;
mod sink;
mod watch;

pub use crate::manifest::{ApiResource, READ_BY_ADMISSION};
pub use connection::{ClusterClient, OnRefusal, Target};
pub use counts::{FeedCounts, KindCounts, ListReason, durations};
pub use error::Error;
pub use eviction::Eviction;
pub use feed::{ClusterFeed, DefaultsSource, run_in_thread};
pub use listing::{ATTEMPTS, ListProgress, ListedFor, NeededObjects, ObjectSelection};
pub use sink::Transport;
