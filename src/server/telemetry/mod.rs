//! Telemetry: metrics and pages on the admin port, and traces.

mod admin;
pub(super) mod counts;
pub mod logging;
pub(super) mod metrics;
pub(super) mod observe;
pub(super) mod sources;
mod traces;

use std::sync::Arc;

use self::admin::{AdminPort, Pages, RestoredPages};
use self::counts::Refusals;
use self::metrics::{Calls, Metrics};
use self::observe::CallObserver;
use self::sources::{Readiness, Sources};
use self::traces::Traces;
use crate::kubernetes::FeedCounts;
use crate::server::config::Config;
use crate::server::error::Error;

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

    /// Returns the refusals, by limit.
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.calls.refusals
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
        health: Arc<dyn Readiness>,
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
