//! The content of `/metrics`. Each file reads one part of the server when it is asked. The parts
//! themselves keep plain counts and know nothing of metrics.

mod calls;
mod family;
mod feeds;
mod parts;
mod process;
mod shared_log;
mod snapshots;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry;

pub use self::calls::{Calls, method};
use super::counts::Refusals;
use super::sources::Sources;
use crate::limits::Limits;
use crate::server::config::Config;

/// The beginning of the names of this program's metrics.
const PREFIX: &str = "evenkeel";

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics(registry::Registry);

impl Metrics {
    /// Media type of [`Self::render`].
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The metrics of a server with these parts.
    pub fn new(config: &Config, calls: &Calls, sources: Arc<Sources>) -> Self {
        let mut metrics = Self::with(ServerParts {
            refusals: Arc::clone(&calls.refusals),
            sources,
            limits: Limits::clone(&config.limits),
            labelled: config.fixed.metrics_snapshots,
        });
        // The port is read before the calls that have ended, so a call that leaves the port in
        // between is counted as ended.
        calls.register(metrics.0.sub_registry_with_prefix(PREFIX));
        metrics
    }

    /// The metrics of a server that has not restored its snapshots yet.
    pub fn of_start() -> Self {
        Self::with(parts::NotReady)
    }

    fn with(parts: impl Collector) -> Self {
        let mut all = registry::Registry::default();
        all.register_collector(Box::new(process::ProcessMetrics(SystemTime::now())));
        let own = all.sub_registry_with_prefix(PREFIX);
        let build = Info::new([
            ("version", env!("CARGO_PKG_VERSION")),
            ("arch", std::env::consts::ARCH),
            ("os", std::env::consts::OS),
        ]);
        own.register("build", "The program that runs", build);
        own.register_collector(Box::new(parts));
        Self(all)
    }

    /// All metrics, in the text format of OpenMetrics.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.0)?;
        Ok(page)
    }
}

/// The parts of the server that are read.
struct ServerParts {
    refusals: Arc<Refusals>,
    sources: Arc<Sources>,
    limits: Limits,
    /// The number of snapshots with their own label.
    labelled: usize,
}

impl fmt::Debug for ServerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerParts").finish_non_exhaustive()
    }
}

impl Collector for ServerParts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (encoder, sources) = (&mut encoder, &*self.sources);
        parts::load(encoder, sources, &self.refusals, &self.limits)?;
        snapshots::encode(encoder, &sources.registry, self.labelled)?;
        parts::account(encoder, sources.registry.account())?;
        if let Some(log) = &sources.decision_log {
            parts::decision_log(encoder, log)?;
        }
        if let Some(counts) = &sources.store {
            parts::store(encoder, counts)?;
        }
        if let Some(source) = &sources.shared_log {
            shared_log::encode(encoder, source, self.labelled)?;
        }
        if !sources.feeds.is_empty() {
            feeds::encode(encoder, &sources.feeds)?;
        }
        snapshots::encode_work(encoder, sources.registry.counters())?;
        parts::security(encoder, &sources.security)
    }
}
