//! Parts of the server with a few figures each: the process, under the names that all Prometheus
//! clients use, its load with its limits, its memory, the decision log, the state directory,
//! certificates, and the feeds inside this process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Family, bytes, plain, read, seconds};
use crate::account::Account;
use crate::decision_log::DecisionLog;
use crate::kubernetes::{FeedCounts, KindCounts, ListReason};
use crate::limits::{Limit, Limits};
use crate::server::telemetry::SecurityCounts;
use crate::server::telemetry::Sources;
use crate::server::telemetry::calls::Calls;
use crate::store::StoreCounts;

pub(super) const READY: Family = plain("ready", "Whether health says SERVING: 1 or 0");
const IN_FLIGHT: Family = plain("calls_in_flight", "Calls under way, without feeds");
const FEEDS: Family = plain("open_feeds", "Feeds open now");
const DECISIONS: Family = plain("open_decision_streams", "Streams of questions open now");
const WATCHES: Family = plain("open_health_watches", "Health watches open now");
const REFLECTIONS: Family = plain("open_reflection_streams", "Reflection streams open now");
const OPEN: Family = plain("open_connections", "Connections open now");
const ACCEPTED: Family = plain("connections_accepted", "Connections accepted");
const REFUSED: Family = plain(
    "connections_refused",
    "Connections closed at once, over max-connections",
);
const BUSY: Family = seconds(
    "thread_busy",
    "Time that a serving thread was not idle; 1 per second is saturation",
);
const LIMIT: Family = plain("limit", "Configured limits on what clients can make grow");

const ACCOUNTED: Family = bytes(
    "accounted_memory",
    "Memory of the process: what its allocator has given out, and what requests under way may take \
     of it or beyond it",
);
const NOT_ACCOUNTED: Family = plain(
    "memory_refusals",
    "Requests refused because of max-memory-bytes",
);

const LOGGED: Family = plain("decisions_logged", "Decisions written to the decision log");
const DROPPED: Family = plain(
    "decisions_not_logged",
    "Decisions that should be logged but are not: too many at once, or the file cannot be written",
);
const LOG_ERRORS: Family = plain(
    "decision_log_errors",
    "Attempts to open, write or rotate the decision log that failed",
);
const WRITTEN: Family = bytes("decision_log_written", "Bytes written to the decision log");

const COMMITS: Family = plain("store_commits", "Transactions of the state directory");
const COMMIT_TIME: Family = seconds("store_commit", "Time that its transactions took");
const NOT_STORED: Family = plain(
    "store_refusals",
    "Calls that were refused because the disk was full",
);
const SIZE: Family = bytes("store_size", "Bytes of the state on the disk");
const WRITABLE: Family = plain(
    "store_writable",
    "1 when the state directory could be written when that was last tried",
);
const RESTORE_TIME: Family = seconds(
    "store_restore",
    "Time that restoring the state took at the start",
);

const RELOADS: Family = plain(
    "security_reloads",
    "Changed certificates and access rules: in use since (ok), or bad and not in use (failed)",
);
const HANDSHAKES: Family = plain(
    "tls_handshakes_failed",
    "TLS handshakes that failed or took too long",
);
const EXPIRES: Family = seconds(
    "tls_certificate_expiry",
    "When the certificate in use ends, since 1970; absent without TLS",
);

/// Writes the load of the server's parts.
pub(super) fn load(
    encoder: &mut DescriptorEncoder<'_>,
    sources: &Sources,
    calls: &Calls,
    limits: &Limits,
) -> fmt::Result {
    let port = &sources.port;
    let open = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    IN_FLIGHT.gauge(encoder, open(&port.calls))?;
    FEEDS.gauge(encoder, open(&port.feeds))?;
    DECISIONS.gauge(encoder, open(&port.decision_streams))?;
    WATCHES.gauge(encoder, open(&port.watches))?;
    REFLECTIONS.gauge(encoder, open(&port.reflections))?;
    OPEN.gauge(encoder, open(&port.connections))?;
    ACCEPTED.counter(encoder, read(&port.accepted))?;
    REFUSED.counter(encoder, calls.refused_connections())?;
    let busy = port.busy().into_iter().enumerate();
    let busy = busy.map(|(index, busy)| ([("thread", index.to_string())], busy));
    BUSY.counters(encoder, busy)?;
    let all = Limit::ALL.iter();
    let all = all.map(|limit| ([("limit", limit.name())], limits.get(*limit)));
    LIMIT.gauges(encoder, all)
}

/// Writes the memory of the process.
pub(super) fn account(encoder: &mut DescriptorEncoder<'_>, account: &Account) -> fmt::Result {
    let allocated = account.allocated().map(|bytes| ("allocated", bytes));
    let parts = allocated
        .into_iter()
        .chain([("requests", account.requests())]);
    ACCOUNTED.gauges(
        encoder,
        parts.map(|(part, bytes)| ([("part", part)], bytes)),
    )?;
    NOT_ACCOUNTED.counter(encoder, account.refused() as u64)
}

/// Writes the decision log's counts.
pub(super) fn decision_log(encoder: &mut DescriptorEncoder<'_>, log: &DecisionLog) -> fmt::Result {
    let counts = log.counts();
    LOGGED.counter(encoder, read(&counts.logged))?;
    DROPPED.counter(encoder, read(&counts.dropped))?;
    LOG_ERRORS.counter(encoder, read(&counts.write_errors))?;
    WRITTEN.counter(encoder, read(&counts.bytes))
}

/// Writes the counts of a state directory.
pub(super) fn store(encoder: &mut DescriptorEncoder<'_>, counts: &StoreCounts) -> fmt::Result {
    let time = |nanos: &AtomicU64| Duration::from_nanos(read(nanos)).as_secs_f64();
    COMMITS.counter(encoder, read(&counts.commits))?;
    COMMIT_TIME.counter(encoder, time(&counts.commit_nanos))?;
    NOT_STORED.counter(encoder, read(&counts.refused_for_space))?;
    WRITABLE.gauge(encoder, i64::from(counts.trouble().is_none()))?;
    SIZE.gauge(encoder, read(&counts.bytes))?;
    RESTORE_TIME.gauge(encoder, time(&counts.restore_nanos))
}

/// Writes the counts of certificates, rules and handshakes.
pub(super) fn security(
    encoder: &mut DescriptorEncoder<'_>,
    counts: &SecurityCounts,
) -> fmt::Result {
    let reloads = [("ok", &counts.reloads), ("failed", &counts.failed_reloads)];
    let reloads = reloads.map(|(result, count)| ([("result", result)], read(count)));
    RELOADS.counters(encoder, reloads)?;
    HANDSHAKES.counter(encoder, read(&counts.failed_handshakes))?;
    match counts.certificate_expires.load(Ordering::Relaxed) {
        0 => Ok(()),
        at => EXPIRES.gauge(encoder, at),
    }
}

const STARTED: Family = seconds("process_start_time", "When the server started, since 1970");

/// This process, since it started as a server.
#[derive(Debug)]
pub(super) struct ProcessMetrics(pub(super) SystemTime);

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let started = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        STARTED.gauge(&mut encoder, started.as_secs_f64())?;
        #[cfg(target_os = "linux")]
        linux::encode(&mut encoder)?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt;

    use procfs::WithCurrentSystemInfo;
    use procfs::process::{LimitValue, Process};
    use prometheus_client::encoding::DescriptorEncoder;

    use crate::server::config::limits;
    use crate::server::telemetry::metrics::{Family, bytes, plain, seconds};

    const CPU: Family = seconds("process_cpu", "CPU time used, in user and system mode");
    const RESIDENT: Family = bytes("process_resident_memory", "Resident set");
    const VIRTUAL: Family = bytes("process_virtual_memory", "Address space");
    const LIMIT: Family = bytes(
        "process_memory_limit",
        "Memory that the process may use before its container is killed; absent without a limit",
    );
    const FDS: Family = plain("process_open_fds", "File descriptors open now");
    const MAX_FDS: Family = plain("process_max_fds", "File descriptors that may be open");
    const THREADS: Family = plain("process_threads", "Threads of the process");

    /// Writes the figures of `/proc/self`; nothing where it cannot be read.
    pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let read =
            Process::myself().and_then(|own| Ok((own.stat()?, own.fd_count()?, own.limits()?)));
        let Ok((stat, fds, limits)) = read else {
            return Ok(());
        };
        let ticks = (stat.utime + stat.stime) as f64;
        CPU.counter(encoder, ticks / procfs::ticks_per_second() as f64)?;
        RESIDENT.gauge(encoder, stat.rss_bytes().get())?;
        VIRTUAL.gauge(encoder, stat.vsize)?;
        if let Some(limit) = limits::memory_limit() {
            LIMIT.gauge(encoder, limit)?;
        }
        FDS.gauge(encoder, fds)?;
        if let LimitValue::Value(limit) = limits.max_open_files.soft_limit {
            MAX_FDS.gauge(encoder, limit)?;
        }
        THREADS.gauge(encoder, stat.num_threads)
    }
}

const EVENTS: Family = plain(
    "kubernetes_events",
    "Events of watches, by snapshot and kind",
);
const CHANGES: Family = plain(
    "kubernetes_changes",
    "Objects that listing and watching brought into the snapshot; others say nothing new",
);
const LISTS: Family = plain(
    "kubernetes_lists",
    "Lists of a whole kind that began, by reason: start, expired, failed or restored",
);
const ERRORS: Family = plain(
    "kubernetes_errors",
    "Lists and watches that failed; they are tried again",
);
const LEFT_OUT: Family = plain(
    "kubernetes_left_out",
    "Objects that were left out because they cannot be read or the snapshot refuses them",
);
const LAG: Family = seconds(
    "kubernetes_lag",
    "Time from the creation of an object, in whole seconds of the cluster's clock, to its batch",
);
const TROUBLES: Family = plain(
    "kubernetes_troubles",
    "What is wrong with the feed now; /readyz says it in words",
);
const FEEDING: Family = plain(
    "kubernetes_feeding",
    "1 when this server feeds the snapshot, 0 while another one of its fleet does",
);

/// Returns a value of each kind of each feed, with its labels.
fn each<'a, V>(
    feeds: &'a [Arc<FeedCounts>],
    of: impl Fn(&'a KindCounts) -> V + 'a,
) -> impl Iterator<Item = ([(&'static str, &'a str); 2], V)> + 'a {
    let all = feeds.iter().flat_map(|feed| {
        let kinds = feed.kinds.iter();
        kinds.map(move |(kind, counts)| {
            let labels = [("snapshot", feed.snapshot()), ("kind", kind.as_str())];
            (labels, counts)
        })
    });
    all.map(move |(labels, counts)| (labels, of(counts)))
}

/// Writes the metrics of the feeds in this process.
pub(super) fn feeds(encoder: &mut DescriptorEncoder<'_>, feeds: &[Arc<FeedCounts>]) -> fmt::Result {
    EVENTS.counters(encoder, each(feeds, |kind| kind.events.get()))?;
    CHANGES.counters(encoder, each(feeds, |kind| kind.changes.get()))?;
    ERRORS.counters(encoder, each(feeds, |kind| kind.errors.get()))?;
    LEFT_OUT.counters(encoder, each(feeds, |kind| kind.left_out.get()))?;
    let lists = each(feeds, |kind| &kind.lists);
    let lists = lists.flat_map(|([snapshot, kind], lists)| {
        ListReason::ALL.map(|reason| {
            let labels = [snapshot, kind, ("reason", reason.as_str())];
            (labels, lists[reason as usize].get())
        })
    });
    LISTS.counters(encoder, lists)?;
    LAG.histograms(encoder, each(feeds, |kind| &kind.lag))?;
    let troubles = feeds.iter();
    let troubles = troubles.map(|feed| ([("snapshot", feed.snapshot())], feed.troubles().len()));
    TROUBLES.gauges(encoder, troubles)?;
    let feeding = feeds.iter();
    let feeding = feeding.map(|feed| {
        (
            [("snapshot", feed.snapshot())],
            usize::from(feed.is_feeding()),
        )
    });
    FEEDING.gauges(encoder, feeding)
}
