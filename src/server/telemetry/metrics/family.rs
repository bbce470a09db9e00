//! Writing families of metrics: a name, a unit, a description and values.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, EncodeMetric,
    MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

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
