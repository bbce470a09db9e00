//! Telemetry: health, metrics and pages on the admin port, and traces.

mod admin;
pub(super) mod calls;
pub(super) mod counts;
pub(super) mod health;
pub mod logging;
pub(super) mod metrics;
mod traces;

use std::sync::Arc;

use self::admin::{AdminPort, Pages, RestoredPages};
use self::calls::{CallObserver, Calls};
use self::counts::{PortCounts, SecurityCounts, Tails};
use self::health::HealthState;
use self::metrics::Metrics;
use self::traces::Traces;
use crate::decision_log::DecisionLog;
use crate::kubernetes::FeedCounts;
use crate::replica::Replica;
use crate::server::Error;
use crate::server::config::Config;
use crate::snapshot::Registry;
use crate::store::StoreCounts;

/// The recorders of calls, with the metrics and traces that they feed.
pub struct Telemetry {
    calls: Arc<Calls>,
    traces: Option<Traces>,
    has_admin: bool,
}

impl Telemetry {
    /// The telemetry of a server. Starts to send traces, if they are configured.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let traces = Traces::start(&config.traces);
        Ok(Self {
            calls: Arc::default(),
            traces: traces.map_err(Error::serve)?,
            has_admin: config.admin.admin_listen.is_some(),
        })
    }

    /// Returns the counts of calls and refusals.
    pub fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// The recorder of calls; `None` without an admin port.
    pub fn observer(&self) -> Option<Arc<CallObserver>> {
        let tracer = self.traces.as_ref().map(Traces::tracer);
        let is_wanted = self.has_admin || tracer.is_some();
        let calls = Arc::clone(&self.calls);
        is_wanted.then(|| Arc::new(CallObserver { calls, tracer }))
    }

    /// Opens the admin port, if one is configured; it ends when the returned value is dropped. It
    /// shows the health of the server at once, and the restored state after [`show`](Self::show).
    pub fn open_admin(
        config: &Config,
        health: HealthState,
        feeds: Vec<Arc<FeedCounts>>,
    ) -> Result<Option<AdminPort>, Error> {
        let Some(address) = config.admin.admin_listen else {
            return Ok(None);
        };
        let pages = Pages {
            health,
            feeds,
            restored: Arc::default(),
        };
        admin::start(address, pages).map(Some)
    }

    /// Shows the restored state on the admin port.
    pub fn show(&self, admin: &AdminPort, config: &Config, sources: Sources) {
        let sources = Arc::new(sources);
        admin.show(RestoredPages {
            metrics: Metrics::new(config, &self.calls, Arc::clone(&sources)),
            sources,
        });
    }

    /// Sends the waiting traces.
    pub async fn stop(self) {
        if let Some(traces) = self.traces {
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

/// All sources of figures.
pub struct Sources {
    pub port: Arc<PortCounts>,
    pub health: HealthState,
    pub registry: Arc<Registry>,
    /// The decision log; `None` when decisions are not logged.
    pub decision_log: Option<DecisionLog>,
    /// The counters of the store; `None` when the state is in memory only.
    pub store: Option<Arc<StoreCounts>>,
    /// The shared log; `None` when the server shares none.
    pub shared_log: Option<SharedLogSource>,
    pub security: Arc<SecurityCounts>,
    /// Feeds that run inside this process.
    pub feeds: Vec<Arc<FeedCounts>>,
}
