//! Limits on what clients can make grow.

use std::time::Duration;

use super::values::{count, message_bytes};
use super::{placing, stored};
use crate::snapshot::Limits;

/// Limits on what clients can make grow. A request over one of them is
/// answered RESOURCE_EXHAUSTED with the limit's name.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitSettings {
    /// Bytes of one message, either way.
    ///
    /// A message is in memory while it is decoded. gRPC's usual 4 MiB are too
    /// few to replace a large cluster in one message. 64 MiB hold some 200,000
    /// pods of 300 bytes. Feeds can send smaller messages.
    #[arg(
        long,
        env = "EVENKEEL_MAX_MESSAGE_BYTES",
        value_name = "BYTES",
        default_value_t = 64 << 20,
        value_parser = message_bytes
    )]
    pub max_message_bytes: usize,

    /// Bytes of memory that clients may make the server hold, all together.
    ///
    /// The default is three quarters of the memory of the control group or the
    /// machine, and at least 64 MiB. Snapshots, unfinished replaces, copies for
    /// export, views, requests and unread answers count. Growth beyond the
    /// limit is refused. Decisions continue, and changes that shrink the state
    /// are always accepted.
    #[arg(
        long,
        env = "EVENKEEL_MAX_MEMORY_BYTES",
        value_name = "BYTES",
        value_parser = count
    )]
    pub max_memory_bytes: Option<usize>,

    /// Calls of SpreadService under way at once, over all connections.
    ///
    /// Every call holds its message, also while it waits for a revision. Feeds,
    /// health and reflection have their own limits. A call over the limit is
    /// refused at once. One caller may have no more calls under way than it
    /// leaves free: half of them when it is alone.
    #[arg(
        long,
        env = "EVENKEEL_MAX_CONCURRENT_CALLS",
        value_name = "COUNT",
        default_value_t = 4_096,
        value_parser = count
    )]
    pub max_concurrent_calls: usize,

    /// Connections open at once.
    ///
    /// Each takes a file descriptor and buffers. A connection over the limit is
    /// closed at once, so that its client tries another server.
    #[arg(
        long,
        env = "EVENKEEL_MAX_CONNECTIONS",
        value_name = "COUNT",
        default_value_t = 10_000,
        value_parser = count
    )]
    pub max_connections: usize,

    /// Changes in one update batch.
    ///
    /// A batch is applied as a whole, and decisions wait for that.
    #[arg(
        long,
        env = "EVENKEEL_MAX_CHANGES_PER_BATCH",
        value_name = "COUNT",
        default_value_t = Limits::default().max_changes_per_batch,
        value_parser = count
    )]
    pub max_changes_per_batch: usize,

    /// Changes in one what-if overlay.
    ///
    /// An overlay is applied to a copy that shares what it does not change. No
    /// other call waits for it.
    #[arg(
        long,
        env = "EVENKEEL_MAX_OVERLAY_CHANGES",
        value_name = "COUNT",
        default_value_t = Limits::default().max_overlay_changes,
        value_parser = count
    )]
    pub max_overlay_changes: usize,

    /// Spread constraints of one pod, and default constraints of a snapshot.
    ///
    /// The time of a decision grows with their number.
    #[arg(
        long,
        env = "EVENKEEL_MAX_CONSTRAINTS_PER_POD",
        value_name = "COUNT",
        default_value_t = Limits::default().max_constraints_per_pod,
        value_parser = count
    )]
    pub max_constraints_per_pod: usize,

    /// Named snapshots.
    ///
    /// The first update that names a snapshot creates it, so a client with a
    /// typing error or a loop creates more.
    #[arg(
        long,
        env = "EVENKEEL_MAX_SNAPSHOTS",
        value_name = "COUNT",
        default_value_t = Limits::default().max_snapshots,
        value_parser = count
    )]
    pub max_snapshots: usize,

    /// Nodes of one snapshot; memory grows with them.
    #[arg(
        long,
        env = "EVENKEEL_MAX_NODES",
        value_name = "COUNT",
        default_value_t = Limits::default().max_nodes,
        value_parser = count
    )]
    pub max_nodes: usize,

    /// Pods of one snapshot; memory grows with them.
    #[arg(
        long,
        env = "EVENKEEL_MAX_PODS",
        value_name = "COUNT",
        default_value_t = Limits::default().max_pods,
        value_parser = count
    )]
    pub max_pods: usize,

    /// Distinct (namespace, labels) among the pods of one snapshot.
    ///
    /// Selectors are matched against label sets. If a label differs for every
    /// pod, the first question with a selector costs as much as a recount.
    #[arg(
        long,
        env = "EVENKEEL_MAX_LABEL_SETS",
        value_name = "COUNT",
        default_value_t = Limits::default().max_label_sets,
        value_parser = count
    )]
    pub max_label_sets: usize,

    /// Services, replica sets, stateful sets and replication controllers of
    /// one snapshot; memory grows with them.
    #[arg(
        long,
        env = "EVENKEEL_MAX_OWNERS",
        value_name = "COUNT",
        default_value_t = Limits::default().max_owners,
        value_parser = count
    )]
    pub max_owners: usize,

    /// Bytes that the views of one snapshot may take.
    ///
    /// A view holds the counts for a question that was asked before. Dropping
    /// one changes no answer, only how fast it comes.
    #[arg(
        long,
        env = "EVENKEEL_MAX_VIEW_BYTES",
        value_name = "BYTES",
        default_value_t = Limits::default().max_view_bytes,
        value_parser = count
    )]
    pub max_view_bytes: usize,

    /// Drop views that were not used for this long.
    ///
    /// Every change of their pods and nodes has to update them.
    #[arg(
        long,
        env = "EVENKEEL_VIEW_IDLE",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = humantime::parse_duration
    )]
    pub view_idle: Duration,

    /// Limits on placing and reserving.
    #[command(flatten)]
    pub placing: placing::PlacingSettings,

    /// Limits on what is stored of a pod.
    #[command(flatten)]
    pub stored: stored::StoredSettings,

    /// Bytes of a string that has no shorter limit of Kubernetes' own: a uid, an
    /// owner of reservations, a name among candidates.
    ///
    /// Strings are kept as long as something uses them. Kubernetes' own longest
    /// (a label key) has 317.
    #[arg(
        long,
        env = "EVENKEEL_MAX_STRING_BYTES",
        value_name = "BYTES",
        default_value_t = Limits::default().max_string_bytes,
        value_parser = count
    )]
    pub max_string_bytes: usize,
}
