//! What the server tells of itself: metrics and pages on the admin port, and
//! traces.

use std::sync::Arc;

use super::admin::{Admin, Pages};
use super::config::{self, Config};
use super::logging::Levels;
use super::metrics::{Calls, Metrics, Sources};
use super::observe::Observer;
use super::traces::Traces;
use super::{Error, reflection};

/// What is noted of calls, and where it goes.
pub(super) struct Telemetry {
    calls: Arc<Calls>,
    traces: Option<Traces>,
    has_admin: bool,
}

impl Telemetry {
    /// Starts to send traces, if they are wanted.
    pub(super) fn start(config: &Config) -> Result<Self, Error> {
        let methods = reflection::methods().map_err(|error| Error::Serve(error.into()))?;
        let traces = Traces::start(&config.traces);
        Ok(Self {
            calls: Calls::new(methods, config::limit_names()),
            traces: traces.map_err(|error| Error::Serve(error.into()))?,
            has_admin: config.admin.admin_listen.is_some(),
        })
    }

    /// Who notes the calls of one more thread; nobody when nobody asks.
    pub(super) fn observer(&self) -> Option<Arc<Observer>> {
        let tracer = self.traces.as_ref().map(Traces::tracer);
        let is_wanted = self.has_admin || tracer.is_some();
        is_wanted.then(|| Observer::new(self.calls.recorder(), tracer))
    }

    /// Opens the admin port, if one is wanted.
    pub(super) fn open_admin(
        &self,
        config: &Config,
        sources: Sources,
        levels: Option<Levels>,
    ) -> Result<Option<Admin>, Error> {
        let Some(address) = config.admin.admin_listen else {
            return Ok(None);
        };
        let pages = Pages {
            health: sources.health.clone(),
            registry: Arc::clone(&sources.registry),
            store: sources.store.clone(),
            levels,
            metrics: Metrics::new(config, Arc::clone(&self.calls), sources),
        };
        Admin::start(address, pages).map(Some)
    }

    /// Sends the traces that wait to be sent.
    pub(super) async fn stop(self) {
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
    }
}
