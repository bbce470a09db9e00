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
    /// A message is held in memory while it is decoded. gRPC's usual 4 MiB
    /// are too few to replace a large cluster in one message; 64 MiB hold
    /// some 200,000 pods of 300 bytes. Feeds can send smaller messages.
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
    /// Three quarters of the memory that the control group or the machine has by
    /// default, and at least 64 MiB. Counted are snapshots, replaces that are being
    /// built, copies that are written out, views, requests, and answers that
    /// are not read. What would grow beyond it is refused; decisions are made
    /// still, and what shrinks is always taken.
    #[arg(
        long,
        env = "EVENKEEL_MAX_MEMORY_BYTES",
        value_name = "BYTES",
        value_parser = count
    )]
    pub max_memory_bytes: Option<usize>,

    /// Calls of SpreadService under way at once, over all connections.
    ///
    /// Every call holds its message, and one that waits for a revision holds
    /// it for as long. Feeds, health and reflection have limits of their own. The
    /// call over the limit is refused at once. One caller may have no more calls
    /// under way than it leaves free: half of them when it is alone.
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
    /// Each costs a file descriptor and its buffers. The connection over the
    /// limit is closed at once, so that its client tries elsewhere.
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
    /// A batch is applied at once, and decisions wait for it meanwhile.
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
    /// An overlay is applied and taken back within one call, and other calls
    /// wait for it meanwhile.
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
    /// A decision's time grows with them.
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
    /// One is created by the first update that names it, so a client with a
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

    /// Distinct sets of labels among the pods of one snapshot; sets of different
    /// namespaces are distinct.
    ///
    /// Selectors are matched against label sets: a label that differs for
    /// every pod makes the first question of a kind as dear as a recount.
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
    /// A view is a count that is kept up to date for a question asked before.
    /// Dropping one changes no answer, only how fast it comes.
    #[arg(
        long,
        env = "EVENKEEL_MAX_VIEW_BYTES",
        value_name = "BYTES",
        default_value_t = Limits::default().max_view_bytes,
        value_parser = count
    )]
    pub max_view_bytes: usize,

    /// Drop views that were not asked for so long.
    ///
    /// Each is work for every change that it follows.
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
    /// Strings are kept for as long as something uses them. Kubernetes' own
    /// longest (a label key) has 317.
    #[arg(
        long,
        env = "EVENKEEL_MAX_STRING_BYTES",
        value_name = "BYTES",
        default_value_t = Limits::default().max_string_bytes,
        value_parser = count
    )]
    pub max_string_bytes: usize,
}
