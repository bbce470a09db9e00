//! Telemetry: metrics and pages on the admin port, and traces.

mod admin;
pub(super) mod counts;
pub(super) mod decisions;
pub mod feeds;
pub mod logging;
pub(super) mod metrics;
pub(super) mod observe;
pub(super) mod sources;
mod traces;

use std::sync::Arc;

use tokio_util::sync::DropGuard;

use self::admin::Pages;
use self::counts::Refusals;
use self::logging::Levels;
use self::metrics::{Calls, Metrics};
use self::observe::CallObserver;
use self::sources::Sources;
use self::traces::Traces;
use crate::server::config::Config;
use crate::server::error::Error;

/// What is noted of calls, and where it goes.
pub struct Telemetry {
    calls: Arc<Calls>,
    traces: Option<Traces>,
    has_admin: bool,
}

impl Telemetry {
    /// Of a service with these methods. Starts to send traces, if they are
    /// wanted.
    pub fn start(config: &Config, methods: Vec<String>) -> Result<Self, Error> {
        let traces = Traces::start(&config.traces);
        Ok(Self {
            calls: Calls::new(methods),
            traces: traces.map_err(Error::serve)?,
            has_admin: config.admin.admin_listen.is_some(),
        })
    }

    /// What is refused, by limit.
    pub fn refusals(&self) -> &Arc<Refusals> {
        self.calls.refusals()
    }

    /// The recorder of calls for one more thread; `None` without an admin port.
    pub fn observer(&self) -> Option<Arc<CallObserver>> {
        let tracer = self.traces.as_ref().map(Traces::tracer);
        let is_wanted = self.has_admin || tracer.is_some();
        let recorder = is_wanted.then(|| self.calls.recorder())?;
        Some(Arc::new(CallObserver { recorder, tracer }))
    }

    /// Opens the admin port, if one is wanted; it ends with what is returned.
    pub fn open_admin(
        &self,
        config: &Config,
        sources: Sources,
        levels: Option<Levels>,
    ) -> Result<Option<DropGuard>, Error> {
        let Some(address) = config.admin.admin_listen else {
            return Ok(None);
        };
        let pages = Pages {
            health: Arc::clone(&sources.health),
            registry: Arc::clone(&sources.registry),
            store: sources.store.clone(),
            feeds: sources.feeds.clone(),
            levels,
            metrics: Metrics::new(config, Arc::clone(&self.calls), sources),
        };
        admin::start(address, pages).map(Some)
    }

    /// Sends the traces that wait to be sent.
    pub async fn stop(self) {
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
    }
}
