//! Feeds inside this process: events and objects of each cluster, by kind.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain, seconds};
use crate::kubernetes::{FeedCounts, KindCounts, ListReason};

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
    "Lists of a whole kind that began, by reason: start, expired, failed or restored",
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

/// Returns a value of each kind of each feed, with its labels.
fn each<'a, V>(
    feeds: &'a [Arc<FeedCounts>],
    of: impl Fn(&'a KindCounts) -> V + 'a,
) -> impl Iterator<Item = ([(&'static str, &'a str); 2], V)> + 'a {
    let all = feeds.iter().flat_map(|feed| {
        let kinds = feed.kinds.iter();
        kinds.map(move |(kind, counts)| {
            let labels = [("snapshot", feed.snapshot()), ("kind", kind.as_str())];
            (labels, counts)
        })
    });
    all.map(move |(labels, counts)| (labels, of(counts)))
}

/// Writes the metrics of the feeds in this process.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    feeds: &[Arc<FeedCounts>],
) -> fmt::Result {
    EVENTS.counters(encoder, each(feeds, |kind| kind.events.get()))?;
    CHANGES.counters(encoder, each(feeds, |kind| kind.changes.get()))?;
    ERRORS.counters(encoder, each(feeds, |kind| kind.errors.get()))?;
    LEFT_OUT.counters(encoder, each(feeds, |kind| kind.left_out.get()))?;
    let lists = each(feeds, |kind| &kind.lists);
    let lists = lists.flat_map(|([snapshot, kind], lists)| {
        ListReason::ALL.map(|reason| {
            let labels = [snapshot, kind, ("reason", reason.as_str())];
            (labels, lists[reason as usize].get())
        })
    });
    LISTS.counters(encoder, lists)?;
    LAG.histograms(encoder, each(feeds, |kind| &kind.lag))?;
    let troubles = feeds.iter();
    let troubles = troubles.map(|feed| ([("snapshot", feed.snapshot())], feed.troubles().len()));
    TROUBLES.gauges(encoder, troubles)?;
    let feeding = feeds.iter();
    let feeding = feeding.map(|feed| {
        (
            [("snapshot", feed.snapshot())],
            usize::from(feed.is_feeding()),
        )
    });
    FEEDING.gauges(encoder, feeding)
}
