//! What `/metrics` says: each file reads one part of the server when it is
//! asked. The parts themselves keep plain counts and know nothing of this.

mod calls;
mod certificates;
mod decision_log;
mod family;
mod feeds;
mod histogram;
mod load;
mod memory;
mod process;
mod shared_log;
mod snapshots;
mod store;
mod work;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry;

pub use self::calls::{Calls, Method, Recorder};
pub(super) use self::histogram::Histogram;
use super::sources::Sources;
use crate::server::config::Config;

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics(registry::Registry);

impl Metrics {
    /// Media type of [`Self::render`].
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Of a server with these parts.
    pub fn new(config: &Config, calls: Arc<Calls>, sources: Sources) -> Self {
        let mut all = registry::Registry::default();
        all.register_collector(Box::new(process::Process::new()));
        let own = all.sub_registry_with_prefix("evenkeel");
        let build = Info::new([
            ("version", env!("CARGO_PKG_VERSION")),
            ("arch", std::env::consts::ARCH),
            ("os", std::env::consts::OS),
        ]);
        own.register("build", "The program that runs", build);
        own.register_collector(Box::new(Arc::clone(&calls)));
        own.register_collector(Box::new(load::Load {
            health: sources.health,
            port: sources.port,
            noted: calls,
            threads: sources.threads,
            limits: config.limits.clone(),
        }));
        own.register_collector(Box::new(snapshots::SnapshotMetrics {
            registry: Arc::clone(&sources.registry),
            labelled: config.admin.metrics_snapshots,
        }));
        own.register_collector(Box::new(memory::Memory(Arc::clone(
            sources.registry.account(),
        ))));
        if let Some(log) = sources.decision_log {
            own.register_collector(Box::new(decision_log::DecisionLogMetrics(log)));
        }
        if let Some(counts) = sources.store {
            own.register_collector(Box::new(store::StoreMetrics(counts)));
        }
        if let Some(source) = sources.shared_log {
            own.register_collector(Box::new(shared_log::SharedLogMetrics {
                source,
                labelled: config.admin.metrics_snapshots,
            }));
        }
        if !sources.feeds.is_empty() {
            own.register_collector(Box::new(feeds::FeedMetrics(sources.feeds)));
        }
        own.register_collector(Box::new(work::WorkMetrics(sources.registry)));
        own.register_collector(Box::new(certificates::SecurityMetrics(sources.security)));
        Self(all)
    }

    /// All of them, in the text format of OpenMetrics.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.0)?;
        Ok(page)
    }
}
