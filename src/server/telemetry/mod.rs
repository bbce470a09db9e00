//! Telemetry: health, metrics and pages on the admin port, and traces. The rest of the server records
//! events in plain counts, which know nothing of metrics.

mod admin;
pub(super) mod calls;
pub(super) mod health;
pub mod logging;
pub(super) mod metrics;
mod traces;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime::RuntimeMetrics;
use tokio_util::sync::DropGuard;

use self::admin::Pages;
use self::calls::{CallObserver, Calls};
use self::health::HealthState;
use self::metrics::Metrics;
use self::traces::Traces;
use crate::decision_log::DecisionLog;
use crate::kubernetes::FeedCounts;
use crate::log::{Bounds, FleetBounds};
use crate::replica::Replica;
use crate::server::Error;
use crate::server::config::Config;
use crate::snapshot::Registry;
use crate::store::StoreCounts;
use crate::visible;

/// The recorders of calls, and the metrics, pages and traces that they feed.
pub struct Telemetry {
    calls: Arc<Calls>,
    traces: Option<Traces>,
    sources: Arc<RestoredSources>,
    /// Ends the admin port when it is dropped.
    admin: Option<DropGuard>,
}

/// The sources of figures, once the server has restored its snapshots.
type RestoredSources = OnceLock<Sources>;

impl Telemetry {
    /// The telemetry of a server. Starts to send traces and opens the admin port, if they are
    /// configured. The port shows the health of the server at once, and the rest after
    /// [`show`](Self::show).
    pub fn start(
        config: &Config,
        health: HealthState,
        feeds: Vec<Arc<FeedCounts>>,
    ) -> Result<Self, Error> {
        let mut telemetry = Self {
            calls: Arc::default(),
            traces: Traces::start(&config.traces).map_err(Error::serve)?,
            sources: Arc::default(),
            admin: None,
        };
        if let Some(address) = config.admin_listen {
            let pages = Pages {
                health,
                feeds,
                sources: Arc::clone(&telemetry.sources),
            };
            let metrics = Metrics::new(config, &telemetry.calls, pages.clone());
            telemetry.admin = Some(admin::start(address, pages, metrics)?);
        }
        Ok(telemetry)
    }

    /// Returns the counts of calls and refusals.
    pub fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// The recorder of calls; `None` if nothing shows what it records.
    pub fn observer(&self) -> Option<Arc<CallObserver>> {
        let tracer = self.traces.as_ref().map(Traces::tracer);
        let is_wanted = self.admin.is_some() || tracer.is_some();
        let calls = Arc::clone(&self.calls);
        is_wanted.then(|| Arc::new(CallObserver { calls, tracer }))
    }

    /// Shows the restored state on the admin port.
    pub fn show(&self, sources: Sources) {
        self.sources.get_or_init(|| sources);
    }

    /// Sends the waiting traces.
    pub async fn stop(&mut self) {
        if let Some(traces) = self.traces.take() {
            traces.stop().await;
        }
    }
}

/// A server's part in a fleet.
pub struct SharedLogSource {
    pub replica: Arc<Replica>,
    pub tails: Arc<Tails>,
}

impl SharedLogSource {
    /// Returns the faults of the logs and the copies that are not current, a line each.
    pub(super) fn troubles(&self) -> Vec<String> {
        let mut lines = self.replica.troubles();
        lines.extend(self.tails.under_replicated());
        lines
    }
}

/// The sources of figures of a server that has restored its snapshots.
pub struct Sources {
    pub port: Arc<PortCounts>,
    pub registry: Arc<Registry>,
    /// The decision log; `None` when decisions are not logged.
    pub decision_log: Option<DecisionLog>,
    /// The counters of the store; `None` when the state is in memory only.
    pub store: Option<Arc<StoreCounts>>,
    /// The shared log; `None` when the server shares none.
    pub shared_log: Option<SharedLogSource>,
    pub security: Arc<SecurityCounts>,
}

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
