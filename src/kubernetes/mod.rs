//! Clients of Kubernetes API servers, which list objects, keep snapshots equal to clusters, evict
//! pods and write deletion costs.
//!
//! `target` selects a cluster, `credentials` has the credentials for it, `connection` is the
//! client, and `renewal` reads credentials again when they change. `resource` defines the
//! resources, and `listing` lists them page by page. `crate::manifest` decodes the objects, in the
//! same way as those in files.
//!
//! `feed` keeps a snapshot equal to a cluster. `watch` follows each kind with `kube`'s watcher,
//! `protobuf` converts the encoding, and `progress` notices a watch that is ahead of its API
//! server. `following` finds changes by comparison with the `known` objects, `pending` collects
//! them in batches, and `sink` sends them.

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
pub(crate) use feed::{FeedPlan, run_in_thread};
pub(crate) use listing::{ATTEMPTS, ListProgress, ListedFor, NeededObjects, ObjectSelection};
pub(crate) use resource::{ApiResource, READ_BY_ADMISSION};
pub(crate) use target::Target;
