//! Plain counts, in which the rest of the server records events. They know nothing of metrics.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::runtime::RuntimeMetrics;

use crate::log::{Bounds, FleetBounds};
use crate::visible;

/// The extents of logs and of the streams beside them, and whether the nats-servers can be reached,
/// as of the last query.
#[derive(Debug, Default)]
pub struct Tails {
    last: Mutex<FleetBounds>,
    is_away: AtomicBool,
}

impl Tails {
    /// Records the answer to a query.
    pub fn note(&self, found: FleetBounds) {
        *self.last.lock() = found;
    }

    /// Records whether the nats-servers have answered.
    pub fn note_reached(&self, is_reached: bool) {
        self.is_away.store(!is_reached, Ordering::Relaxed);
    }

    /// The extent of a log, if it is known.
    pub(super) fn of(&self, snapshot: &str) -> Option<Bounds> {
        self.last.lock().logs.get(snapshot).cloned()
    }

    /// The logs and streams of which not all copies are current, a line each.
    pub(super) fn under_replicated(&self) -> Vec<String> {
        let told = |of: String, bounds: &Bounds| {
            let (current, copies) = (bounds.current(), bounds.copies);
            let behind = bounds.behind.join(", ");
            let is_so = !behind.is_empty();
            is_so.then(|| {
                format!(
                    "{of}: {current} of {copies} copies are current, not that of {}",
                    visible::brief(&behind)
                )
            })
        };
        let last = self.last.lock();
        let logs = last.logs.iter();
        let logs = logs.filter_map(|(name, it)| told(format!("log of snapshot {name}"), it));
        let mut lines: Vec<_> = logs.collect();
        lines.sort_unstable();
        let beside = last.beside.iter();
        lines.extend(beside.filter_map(|(stream, it)| told(format!("stream {stream}"), it)));
        lines
    }

    /// Returns whether the nats-servers answered the last query.
    pub(super) fn is_reachable(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed)
    }
}

/// The counts of certificates, rules and handshakes since the server started.
#[derive(Debug, Default)]
pub struct SecurityCounts {
    /// The number of times that changed certificates or rules came into use.
    pub reloads: AtomicU64,
    /// The number of times that changed certificates or rules were bad. The previous ones stay in
    /// use.
    pub failed_reloads: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub failed_handshakes: AtomicU64,
    /// The end of the server's certificate, in seconds since 1970; 0 without TLS.
    pub certificate_expires: AtomicI64,
}

/// The port: what is open on it now, and its work since the start.
#[derive(Debug, Default)]
pub struct PortCounts {
    /// Calls under way, without streams.
    pub calls: AtomicUsize,
    /// Open feeds.
    pub feeds: AtomicUsize,
    /// Open streams of questions.
    pub decision_streams: AtomicUsize,
    /// Health checks under way.
    pub checks: AtomicUsize,
    /// Open health watches.
    pub watches: AtomicUsize,
    /// Open streams of reflection.
    pub reflections: AtomicUsize,
    /// Open connections.
    pub connections: AtomicUsize,
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// The threads that serve connections, by number. Each is added when it starts.
    pub threads: Mutex<Vec<RuntimeMetrics>>,
}

impl PortCounts {
    /// The seconds in which each thread was not idle, by its number.
    pub(super) fn busy(&self) -> Vec<f64> {
        let threads = self.threads.lock();
        let busy = |it: &RuntimeMetrics| it.worker_total_busy_duration(0).as_secs_f64();
        threads.iter().map(busy).collect()
    }
}
