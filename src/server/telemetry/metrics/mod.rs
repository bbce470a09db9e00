//! The content of `/metrics`. Each file reads one part of the server when it is asked. The parts
//! themselves keep plain counts and know nothing of metrics. A family is a name, a unit, a description
//! and values.

mod parts;
mod snapshots;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
    MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{self, Unit};

use super::admin::Pages;
use super::calls::Calls;
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
    pub fn new(config: &Config, calls: &Arc<Calls>, pages: Pages) -> Self {
        let mut all = registry::Registry::default();
        all.register_collector(Box::new(parts::ProcessMetrics(SystemTime::now())));
        let own = all.sub_registry_with_prefix(PREFIX);
        let build = Info::new([
            ("version", env!("CARGO_PKG_VERSION")),
            ("arch", std::env::consts::ARCH),
            ("os", std::env::consts::OS),
        ]);
        own.register("build", "The program that runs", build);
        own.register_collector(Box::new(ServerParts {
            calls: Arc::clone(calls),
            pages,
            limits: Limits::clone(&config.limits),
            labelled: config.fixed.metrics_snapshots,
        }));
        // The port is read before the calls that have ended, so a call that leaves the port in
        // between is counted as ended.
        calls.register(all.sub_registry_with_prefix(PREFIX));
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
    calls: Arc<Calls>,
    pages: Pages,
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
        let encoder = &mut encoder;
        let is_ready = self.pages.health.unready().is_empty();
        parts::READY.gauge(encoder, u32::from(is_ready))?;
        let Some(sources) = self.pages.sources.get() else {
            return Ok(());
        };
        parts::load(encoder, sources, &self.calls, &self.limits)?;
        snapshots::encode(encoder, &sources.registry, self.labelled)?;
        parts::account(encoder, sources.registry.account())?;
        if let Some(log) = &sources.decision_log {
            parts::decision_log(encoder, log)?;
        }
        if let Some(counts) = &sources.store {
            parts::store(encoder, counts)?;
        }
        if let Some(source) = &sources.shared_log {
            snapshots::encode_log(encoder, source, self.labelled)?;
        }
        if !self.pages.feeds.is_empty() {
            parts::feeds(encoder, &self.pages.feeds)?;
        }
        snapshots::encode_work(encoder, sources.registry.counters())?;
        parts::security(encoder, &sources.security)
    }
}

/// The name of a family, without its unit and `_total`; its unit; and its meaning.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) help: &'static str,
}

/// A family without a unit.
pub(super) const fn plain(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        unit: None,
        help,
    }
}

/// A family in seconds.
pub(super) const fn seconds(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        unit: Some(Unit::Seconds),
        help,
    }
}

/// A family in bytes.
pub(super) const fn bytes(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        unit: Some(Unit::Bytes),
        help,
    }
}

/// The value of a counter.
pub(super) fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Family {
    /// Writes the lines above the family's values.
    fn begin<'e>(
        &'e self,
        encoder: &'e mut DescriptorEncoder<'_>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'e>, fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)
    }

    /// Writes a gauge without labels.
    pub(super) fn gauge(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.begin(encoder, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes a gauge for each set of labels.
    pub(super) fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.begin(encoder, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes a counter without labels.
    pub(super) fn counter(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        self.begin(encoder, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// Writes a counter for each set of labels.
    pub(super) fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.begin(encoder, MetricType::Counter)?;
        for (labels, value) in values {
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a histogram for each set of labels.
    pub(super) fn histograms<'h, L: EncodeLabelSet>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        values: impl IntoIterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result {
        let mut family = self.begin(encoder, MetricType::Histogram)?;
        for (labels, histogram) in values {
            histogram.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
