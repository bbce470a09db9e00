//! Feeds inside this process: what came from each cluster, by kind.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain, seconds};
use super::histogram::Totals;
use crate::server::telemetry::feeds::{FeedCounts, KindFigures};

const EVENTS: Family = plain(
    "kubernetes_events",
    "Events of watches, by snapshot and kind",
);
const CHANGES: Family = plain(
    "kubernetes_changes",
    "Objects that listing and watching brought into the snapshot; others say nothing new",
);
const LISTS: Family = plain(
    "kubernetes_lists",
    "Lists of a whole kind that began, by reason: start, expired or failed",
);
const ERRORS: Family = plain(
    "kubernetes_errors",
    "Lists and watches that failed; they are tried again",
);
const LEFT_OUT: Family = plain(
    "kubernetes_left_out",
    "Objects that were left out because they cannot be read or the snapshot refuses them",
);
const LAG: Family = seconds(
    "kubernetes_lag",
    "Time from the creation of an object, in whole seconds of the cluster's clock, to its batch",
);
const TROUBLES: Family = plain(
    "kubernetes_troubles",
    "What is wrong with the feed now; /readyz says it in words",
);

const FEEDING: Family = plain(
    "kubernetes_feeding",
    "1 when this server feeds the snapshot, 0 while another one of its fleet does",
);

/// The feeds of this process.
#[derive(Debug)]
pub(super) struct FeedMetrics(pub(super) Vec<Arc<FeedCounts>>);

impl FeedMetrics {
    fn each<'a, V>(
        &'a self,
        of: impl Fn(&KindFigures<'a>) -> V + 'a,
    ) -> impl Iterator<Item = ([(&'static str, &'a str); 2], V)> + 'a {
        let all = self.0.iter().flat_map(|feed| {
            let kinds = feed.figures();
            kinds.map(move |kind| (feed.snapshot(), kind))
        });
        all.map(move |(snapshot, kind)| {
            let value = of(&kind);
            ([("snapshot", snapshot), ("kind", kind.kind)], value)
        })
    }
}

impl Collector for FeedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        EVENTS.counters(&mut encoder, self.each(|kind| kind.events))?;
        CHANGES.counters(&mut encoder, self.each(|kind| kind.changes))?;
        ERRORS.counters(&mut encoder, self.each(|kind| kind.errors))?;
        LEFT_OUT.counters(&mut encoder, self.each(|kind| kind.left_out))?;
        let lists = self.each(|kind| kind.lists);
        let lists = lists.flat_map(|([snapshot, kind], lists)| {
            let labelled =
                lists.map(|(reason, count)| ([snapshot, kind, ("reason", reason)], count));
            labelled.into_iter()
        });
        LISTS.counters(&mut encoder, lists)?;
        let lag = self.each(|kind| {
            let mut totals = Totals::default();
            totals.add(kind.lag);
            totals
        });
        LAG.histograms(&mut encoder, lag)?;
        let troubles = self.0.iter();
        let troubles =
            troubles.map(|feed| ([("snapshot", feed.snapshot())], feed.troubles().len()));
        TROUBLES.gauges(&mut encoder, troubles)?;
        let feeding = self.0.iter();
        let feeding = feeding.map(|feed| {
            (
                [("snapshot", feed.snapshot())],
                usize::from(feed.is_feeding()),
            )
        });
        FEEDING.gauges(&mut encoder, feeding)
    }
}
