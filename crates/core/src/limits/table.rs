//! The table of all limits on the memory and work that clients can cause.
//!
//! Each limit is one row. The row gives its help, the words of a refusal and its series in the
//! metrics. Ten limits depend on the size of a cluster or a machine, and people set them: the row of
//! such a limit also gives its flag, environment variable and key in the settings file. The others
//! are constants, each with its reason.

use std::time::Duration;

use super::{NodeNames, processors};

/// The name, meaning and bounds of a limit.
#[derive(Debug)]
pub struct Row {
    /// The limit's name in flags, messages and metrics, such as `max-nodes`.
    pub name: &'static str,
    /// The limit's name as a key, such as `max_nodes`.
    pub key: &'static str,
    /// The words for the limited things in refusals.
    pub of: &'static str,
    /// The limit's meaning: a summary, an empty line, and more text.
    pub help: &'static str,
    /// The unit of the limit's values.
    pub unit: Unit,
    /// The default, or `None` if it depends on the machine, see [`Limits::default`].
    pub default: Option<usize>,
    /// The least value that can be set.
    pub least: usize,
    /// The greatest value that can be set.
    pub most: usize,
    /// The consequence of exceeding the limit.
    pub over: Over,
    /// True if another attempt may succeed soon after a refusal.
    pub passes: bool,
    /// True if a setting of the server sets the limit, false if it is a constant.
    pub settable: bool,
}

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A number of bytes.
    Bytes,
}

/// The consequence of exceeding a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The request is refused, and the refusal is counted.
    Refused,
    /// The request waits.
    Waits,
    /// An older entry is forgotten, which changes no answer.
    Forgotten,
}

/// A count that is refused when it is too large. Rows only list their differences from this.
const COUNT: Row = Row {
    name: "",
    key: "",
    of: "",
    help: "",
    unit: Unit::Count,
    default: None,
    least: 1,
    most: usize::MAX,
    over: Over::Refused,
    passes: false,
    settable: false,
};

/// A number of bytes that is refused when it is too large.
const BYTES: Row = Row {
    unit: Unit::Bytes,
    ..COUNT
};

/// A count of something that clients share. A refused request may succeed when others are done.
const SHARED: Row = Row {
    passes: true,
    ..COUNT
};

macro_rules! table {
    ($($(#[doc = $doc:literal])+ $limit:ident, $key:ident, $name:literal, $of:literal: $row:expr;)+) => {
        /// A limit by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Limit {
            $($(#[doc = $doc])+ $limit,)+
        }

        /// The values of all limits.
        #[derive(Debug, Clone)]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $key: usize,)+
            /// The longest time that a reservation may be held.
            pub max_reservation_ttl: Duration,
            /// The rule for names of nodes.
            pub node_names: NodeNames,
            /// True if tolerations with `Gt` and `Lt` compare numbers. In Kubernetes the feature
            /// gate TaintTolerationComparisonOperators does that; it is off by default.
            pub toleration_comparisons: bool,
        }

        const ROWS: &[Row] = &[$(Row {
            name: $name,
            key: stringify!($key),
            of: $of,
            help: concat!($($doc, "\n"),+),
            ..$row
        }),+];

        impl Limit {
            /// All limits, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$limit),+];
        }

        impl Limits {
            /// Returns the value of a limit.
            pub const fn get(&self, limit: Limit) -> usize {
                match limit {
                    $(Limit::$limit => self.$key,)+
                }
            }

            /// Sets the value of a limit.
            pub const fn set(&mut self, limit: Limit, value: usize) {
                match limit {
                    $(Limit::$limit => self.$key = value,)+
                }
            }

            /// Returns limits that refuse nothing. They are for objects that were accepted before.
            pub const fn none() -> Self {
                Self {
                    $($key: usize::MAX,)+
                    max_reservation_ttl: Duration::MAX,
                    node_names: NodeNames::Any,
                    toleration_comparisons: false,
                }
            }
        }
    };
}

table! {
    /// Bytes of one message, either way.
    ///
    /// A message is in memory while it is decoded. gRPC's usual 4 MiB are too
    /// few to replace a large cluster in one message. 64 MiB hold some 200,000
    /// pods of 300 bytes. Feeds can send smaller messages.
    MessageBytes, max_message_bytes, "max-message-bytes", "message bytes":
        Row { default: Some(64 << 20), least: 1_024, most: u32::MAX as usize, settable: true, ..BYTES };

    /// Bytes of memory that the process may hold.
    ///
    /// The default is three quarters of the memory of the control group or the
    /// machine, and at least 64 MiB. What the allocator has given out counts, with
    /// what requests under way will take. Growth beyond the limit is refused.
    /// Decisions continue, and deletes are always accepted.
    MemoryBytes, max_memory_bytes, "max-memory-bytes", "bytes of memory":
        Row { passes: true, settable: true, ..BYTES };

    /// Calls of SpreadService under way at once, over all connections.
    ///
    /// Every call holds its message, also while it waits for a revision. Streams
    /// and health checks have their own limits. A call over the limit is
    /// refused at once. One caller may have no more calls under way than it
    /// leaves free: half of them when it is alone.
    ConcurrentCalls, max_concurrent_calls, "max-concurrent-calls", "concurrent calls":
        Row { default: Some(4_096), settable: true, ..SHARED };

    /// Connections open at once.
    ///
    /// Each takes a file descriptor and buffers. A connection over the limit is
    /// closed at once, so that its client tries another server.
    Connections, max_connections, "max-connections", "connections":
        Row { default: Some(10_000), settable: true, ..COUNT };

    /// Changes in one update batch.
    ///
    /// A batch is applied as a whole. A large one is applied to copies of what
    /// it changes, which take memory meanwhile.
    ChangesPerBatch, max_changes_per_batch, "max-changes-per-batch", "changes":
        Row { default: Some(100_000), ..COUNT };

    /// Changes in one what-if overlay.
    ///
    /// An overlay is applied to a copy that shares what it does not change. No
    /// other call waits for it.
    OverlayChanges, max_overlay_changes, "max-overlay-changes", "changes":
        Row { default: Some(1_000), ..COUNT };

    /// Entries of one list or map in a request that has no limit of its own, such as
    /// the tolerations of a pod.
    ///
    /// They are counted before the message is decoded. Kubernetes keeps objects of at
    /// most 1.5 MiB, in which no list of anything that has a name is longer than the
    /// default.
    ListEntries, max_list_entries, "max-list-entries", "entries of a list":
        Row { default: Some(100_000), ..COUNT };

    /// Bytes of one object or one selector in a request.
    ///
    /// Checking one takes a tenth of a second at most, and between two of them a request
    /// can be given up. They are counted before the message is decoded. Kubernetes' API
    /// server takes no larger object: it reads at most so many bytes of a request.
    ObjectBytes, object_bytes, "object-bytes", "bytes of an object":
        Row { default: Some(3 << 20), ..BYTES };

    /// Spread constraints of one pod, and default constraints of a snapshot.
    ///
    /// The time of a decision grows with their number.
    ConstraintsPerPod, max_constraints_per_pod, "max-constraints-per-pod", "constraints":
        Row { default: Some(32), ..COUNT };

    /// Terms of required node affinity of one pod.
    ///
    /// A node is checked against each term, so the time of a decision grows with their
    /// number.
    NodeAffinityTerms, node_affinity_terms, "node-affinity-terms", "terms":
        Row { default: Some(1_000), ..COUNT };

    /// Resources of one pod that have names of their own.
    ///
    /// A node is checked for each of them, so the time of a decision grows with their
    /// number.
    PodResources, pod_resources, "pod-resources", "resources":
        Row { default: Some(1_000), ..COUNT };

    /// Named snapshots.
    ///
    /// The first update that names a snapshot creates it, so a client with a
    /// typing error or a loop creates more.
    Snapshots, max_snapshots, "max-snapshots", "snapshots":
        Row { default: Some(1_000), settable: true, ..COUNT };

    /// Nodes of one snapshot; memory grows with them.
    Nodes, max_nodes, "max-nodes", "nodes": Row { default: Some(200_000), settable: true, ..COUNT };

    /// Pods of one snapshot; memory grows with them.
    Pods, max_pods, "max-pods", "pods": Row { default: Some(10_000_000), settable: true, ..COUNT };

    /// Distinct (namespace, labels) among the pods of one snapshot.
    ///
    /// Selectors are matched against label sets. If a label differs for every
    /// pod, the first question with a selector costs as much as a recount.
    LabelSets, max_label_sets, "max-label-sets", "label sets":
        Row { default: Some(5_000_000), ..COUNT };

    /// Services, replica sets, stateful sets, replication controllers, namespaces,
    /// claims, persistent volumes and storage classes of one snapshot; memory grows
    /// with them.
    Owners, max_owners, "max-owners", "services, owners and other objects":
        Row { default: Some(1_000_000), ..COUNT };


    /// Replicas of one Place, and reservations confirmed, renewed or released at
    /// once.
    Replicas, max_replicas, "max-replicas", "replicas": Row { default: Some(100_000), ..COUNT };

    /// Workloads of one Place.
    ///
    /// Each is placed on what those before it leave, so all nodes are looked at for each.
    PlacedWorkloads, placed_workloads, "placed-workloads", "workloads placed together":
        Row { default: Some(1_000), ..COUNT };

    /// Scores in the steps of one Fleet Place, one per step and cluster.
    StepScores, max_step_scores, "max-step-scores", "scores of all steps":
        Row { default: Some(1_000_000), ..COUNT };

    /// Live reservations of one snapshot; also the answers that it keeps for
    /// request ids.
    Reservations, max_reservations, "max-reservations", "reservations":
        Row { default: Some(100_000), settable: true, ..COUNT };

    /// Bytes of what a stored pod asks for.
    ///
    /// These are its owners, node selector, affinity, tolerations, spread
    /// constraints, volumes and the sum of its requests. Pods that ask for the same share them.
    PodSpecBytes, max_pod_spec_bytes, "max-pod-spec-bytes", "bytes of a stored pod":
        Row { default: Some(64 << 10), ..BYTES };

    /// Bytes of a string that has no shorter limit of Kubernetes' own: a uid, an
    /// owner of reservations, a name among candidates.
    ///
    /// Strings are kept as long as something uses them. Kubernetes' own longest
    /// (a label key) has 317.
    StringBytes, max_string_bytes, "max-string-bytes", "bytes of a string":
        Row { default: Some(4_096), ..BYTES };

    /// Long decisions that run at once.
    ///
    /// The default is two per processor. One caller runs at most half of them, so
    /// that another's need not wait for one of its to end. Place, Explain,
    /// DescribeSpread, RankRemovals, Rebalance and PlanNodes may take long, and Filter and
    /// Score with an overlay, many candidates, or on a very large snapshot. Other decisions
    /// run at once.
    RunningDecisions, max_running_decisions, "max-running-decisions", "decisions at work":
        Row { over: Over::Waits, settable: true, ..SHARED };

    /// Long decisions that wait.
    ///
    /// The default is 128 per processor. One more is refused at once, so that
    /// its client can ask another server. Those of one caller wait for one
    /// another rather than for others', so a long queue is its own.
    WaitingDecisions, max_waiting_decisions, "max-waiting-decisions", "decisions that wait for a processor":
        Row { ..SHARED };

    /// Streams open at once, over all connections: feeds (StreamSnapshot), streams of questions
    /// (Decide), health watches and reflection.
    ///
    /// They may stay open for days and are not concurrent calls. One caller may have no
    /// more streams than it leaves free. A watch takes some 20 KB.
    Streams, max_streams, "max-streams", "open streams": Row { default: Some(4_096), ..SHARED };

    /// Unanswered questions of one stream.
    ///
    /// Most questions are answered at once. One that waits, for a revision or a
    /// processor, keeps its request in memory. One more is refused, and the stream
    /// goes on.
    StreamQuestions, max_stream_questions, "max-stream-questions", "unanswered questions of a stream":
        Row { default: Some(256), ..SHARED };

    /// Calls and streams of one connection at once; more wait in the client.
    CallsPerConnection, max_calls_per_connection, "max-calls-per-connection", "calls of a connection":
        Row { default: Some(1_000), most: u32::MAX as usize, over: Over::Waits, settable: true, ..SHARED };

    /// Health checks under way at once. They have their own slots, which no
    /// other call can take, and each is answered at once.
    HealthChecks, health_checks, "health-checks", "health checks":
        Row { default: Some(1_024), ..SHARED };
}

impl Limit {
    /// Returns the limit's row of the table.
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The limit's name, such as `max-nodes`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the limit with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|limit| limit.name() == name)
    }

    /// Returns all limits that refuse a request when they are exceeded.
    pub fn refusing() -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|limit| limit.row().over == Over::Refused)
    }
}

impl Default for Limits {
    /// Returns the defaults of the table. Memory is not limited. For each processor, two long
    /// decisions run and 128 wait.
    fn default() -> Self {
        let mut limits = Self::none();
        limits.max_reservation_ttl = Duration::from_secs(3_600);
        limits.node_names = NodeNames::default();
        for &limit in Limit::ALL {
            if let Some(default) = limit.row().default {
                limits.set(limit, default);
            }
        }
        limits.max_running_decisions = 2 * processors();
        limits.max_waiting_decisions = 128 * processors();
        limits
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the number of times that this thread has read from files.
    fn reads() -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").expect("the kernel counts");
        let mut lines = io.lines();
        let reads = lines.find_map(|line| line.strip_prefix("syscr: "));
        reads
            .and_then(|reads| reads.parse().ok())
            .expect("a number")
    }

    #[test]
    fn limits_are_made_without_reading_files() {
        const TIMES: u64 = 1_000;
        let before = reads();
        for _ in 0..TIMES {
            std::hint::black_box(Limits::default());
        }
        assert!(reads() - before < TIMES);
    }
}
