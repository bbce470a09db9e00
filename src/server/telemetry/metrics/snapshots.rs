//! Snapshots: their size and age, and the work of all together. Each of the largest has its
//! own label. The others share one label, so that a client that creates many does not make the
//! scrape large. Then the log that several servers share.

use std::cmp::Reverse;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;

use super::{Family, plain, read, seconds};
use crate::replica::Counts;
use crate::server::telemetry::SharedLogSource;
use crate::snapshot::Registry;
use crate::snapshot::counters::SnapshotCounters;
use crate::snapshot::reads::Summary;

/// The label value of all snapshots without their own; no name of a snapshot has parentheses.
const OTHERS: &str = "(others)";

const COUNT: Family = plain("snapshots", "Named snapshots");
const SYNCED: Family = plain(
    "snapshot_synced",
    "Whether decisions on the snapshot are answered: 1 or 0; of the others, 1 if all of them are",
);
const STALE: Family = plain(
    "snapshot_stale",
    "Whether the snapshot is older than --max-age: 1 or 0; of the others, 1 if any is",
);
const REVISION: Family = plain("snapshot_revision", "Revision of the snapshot");
const AGE: Family = seconds(
    "snapshot_age",
    "Time since the last batch was applied; of the others, the longest",
);
const LAG: Family = seconds(
    "snapshot_feed_lag",
    "Time from the arrival of the last batch until it was applied; of the others, the longest",
);
const OBJECTS: Family = plain("snapshot_objects", "What the snapshot holds, by kind");
const VIEWS: Family = plain("snapshot_views", "Views that are kept up to date");
const RESERVATIONS: Family = plain("snapshot_reservations", "Live reservations");

const LOOKUPS: Family = plain(
    "view_lookups",
    "Counts that decisions asked for: answered by a kept view (hit), or by building one (built)",
);
const DROPPED: Family = plain(
    "views_dropped",
    "Views dropped: idle, over the memory limit, or cheaper to rebuild than to update",
);
const BATCHES: Family = plain(
    "batches",
    "Batches applied, replaces and reservations among them",
);
const REPLACES: Family = plain("replaces", "Replaces of a whole snapshot");
const CHANGES: Family = plain(
    "changes",
    "Changes applied: those that made a difference, and those that did not",
);
const RESERVED: Family = plain("reservations_made", "Reservations made");
const EXPIRED: Family = plain("reservations_expired", "Reservations that expired");
/// The summaries of `labelled` snapshots, and one summary of all others together.
fn told(registry: &Registry, labelled: usize) -> Vec<Summary> {
    let size = |summary: &Summary| summary.sizes.nodes + summary.sizes.pods;
    // Expected snapshots come first, whatever their size.
    let all = registry.list("").into_iter();
    let all = all.map(|snapshot| (snapshot.is_expected(), snapshot.summary()));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(expected, summary)| Reverse((*expected, size(summary))));
    let mut told: Vec<_> = all.into_iter().map(|(_, summary)| summary).collect();
    let others = told.split_off(labelled.min(told.len()));
    told.extend(others.into_iter().reduce(merge).map(|others| Summary {
        name: OTHERS.into(),
        ..others
    }));
    told
}

fn merge(mut all: Summary, other: Summary) -> Summary {
    all.synced &= other.synced;
    all.stale |= other.stale;
    all.unchanged_for = all.unchanged_for.max(other.unchanged_for);
    all.lag = all.lag.max(other.lag);
    all.sizes.nodes += other.sizes.nodes;
    all.sizes.pods += other.sizes.pods;
    all.sizes.label_sets += other.sizes.label_sets;
    all.sizes.owners += other.sizes.owners;
    all.namespaces += other.namespaces;
    all.views += other.views;
    all.reservations += other.reservations;
    all
}

fn label(told: &Summary) -> [(&str, &str); 1] {
    [("snapshot", told.name.as_str())]
}

/// Writes the figures of each snapshot; `labelled` snapshots have a label of their own.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    registry: &Registry,
    labelled: usize,
) -> fmt::Result {
    let told = told(registry, labelled);
    let each = |of: fn(&Summary) -> f64| told.iter().map(move |t| (label(t), of(t)));
    COUNT.gauge(encoder, registry.list("").len())?;
    SYNCED.gauges(encoder, each(|t| f64::from(u8::from(t.synced))))?;
    STALE.gauges(encoder, each(|t| f64::from(u8::from(t.stale))))?;
    let revisions = told.iter().filter(|t| t.name != OTHERS);
    REVISION.gauges(encoder, revisions.map(|t| (label(t), t.revision)))?;
    AGE.gauges(encoder, each(|t| t.unchanged_for.as_secs_f64()))?;
    LAG.gauges(encoder, each(|t| t.lag.as_secs_f64()))?;
    let objects = told.iter().flat_map(|t| {
        let kinds = [
            ("node", t.sizes.nodes),
            ("pod", t.sizes.pods),
            ("namespace", t.namespaces),
            ("label_set", t.sizes.label_sets),
            ("owner", t.sizes.owners),
        ];
        kinds.map(|(kind, count)| ([label(t)[0], ("kind", kind)], count))
    });
    OBJECTS.gauges(encoder, objects)?;
    VIEWS.gauges(encoder, told.iter().map(|t| (label(t), t.views)))?;
    let reservations = told.iter().map(|t| (label(t), t.reservations));
    RESERVATIONS.gauges(encoder, reservations)
}

/// Writes the work of all snapshots together.
pub(super) fn encode_work(
    encoder: &mut DescriptorEncoder<'_>,
    counters: &SnapshotCounters,
) -> fmt::Result {
    let by_result = |results: [(&'static str, u64); 2]| {
        results.map(|(result, count)| ([("result", result)], count))
    };
    let (hits, builds) = (read(&counters.view_hits), read(&counters.view_builds));
    LOOKUPS.counters(encoder, by_result([("hit", hits), ("built", builds)]))?;
    DROPPED.counter(encoder, read(&counters.views_dropped))?;
    BATCHES.counter(encoder, read(&counters.batches))?;
    REPLACES.counter(encoder, read(&counters.replaces))?;
    let (changed, unchanged) = (read(&counters.changed), read(&counters.unchanged));
    CHANGES.counters(
        encoder,
        by_result([("changed", changed), ("unchanged", unchanged)]),
    )?;
    RESERVED.counter(encoder, read(&counters.reserved))?;
    EXPIRED.counter(encoder, read(&counters.expired))
}

type Read = fn(&Counts) -> &AtomicU64;

const COUNTERS: [(Family, Read); 9] = [
    (
        plain("log_appended", "Records that this server appended to logs"),
        |counts| &counts.appended,
    ),
    (
        plain("log_followed", "Records of other servers that were applied"),
        |counts| &counts.followed,
    ),
    (
        plain("log_conflicts", "Appends that lost against those of others"),
        |counts| &counts.conflicts,
    ),
    (
        plain(
            "log_unknown_fates",
            "Appends that were not answered in time",
        ),
        |counts| &counts.unknown_fates,
    ),
    (
        plain("log_voids", "Messages of logs that count for nobody"),
        |counts| &counts.voids,
    ),
    (
        plain(
            "log_stalls",
            "Times that a message which was there did not come",
        ),
        |counts| &counts.stalls,
    ),
    (
        plain(
            "log_quarantines",
            "Snapshots that were given up because of what their logs say",
        ),
        |counts| &counts.quarantines,
    ),
    (
        plain(
            "log_bootstraps",
            "Snapshots that were read anew, from a checkpoint or the beginning",
        ),
        |counts| &counts.bootstraps,
    ),
    (
        plain("log_checkpoints", "Checkpoints that this server wrote"),
        |counts| &counts.checkpoints,
    ),
];

const REACHABLE: Family = plain(
    "log_reachable",
    "1 when the nats-servers answered the last time they were asked",
);
const APPLIED: Family = plain(
    "log_applied",
    "Sequence of the last message that was applied",
);
const TAIL: Family = plain(
    "log_tail",
    "Sequence of the last message of the log, when it was last asked for",
);
const TROUBLES: Family = plain(
    "log_troubles",
    "Faults of logs, such as one that cannot be followed; /readyz says which",
);
const UNDER_REPLICATED: Family = plain(
    "log_under_replicated",
    "Logs, and streams beside them, of which a nats-server has no current copy; /readyz says which",
);
const COPIES: Family = plain(
    "log_copies_current",
    "Nats-servers that have the whole log, when it was last asked for",
);

/// Writes the figures of a server's part in a fleet; `labelled` snapshots have their own label.
pub(super) fn encode_log(
    encoder: &mut DescriptorEncoder<'_>,
    SharedLogSource { replica, tails }: &SharedLogSource,
    labelled: usize,
) -> fmt::Result {
    for (family, read) in &COUNTERS {
        let value = read(replica.counts()).load(Ordering::Relaxed);
        family.counter(encoder, value)?;
    }
    REACHABLE.gauge(encoder, i64::from(tails.is_reachable()))?;
    let mut lags = replica.lags();
    TROUBLES.gauge(encoder, replica.troubles().len())?;
    lags.sort_unstable_by(|a, b| a.snapshot.cmp(&b.snapshot));
    lags.truncate(labelled);
    let applied = lags.iter();
    let applied = applied.map(|lag| ([("snapshot", &*lag.snapshot)], lag.applied));
    APPLIED.gauges(encoder, applied)?;
    let ends = lags.iter().map(|lag| {
        // The log is at least as long as the part that was read.
        let last = tails.of(&lag.snapshot).map_or(0, |bounds| bounds.last);
        ([("snapshot", &*lag.snapshot)], last.max(lag.applied))
    });
    TAIL.gauges(encoder, ends)?;
    let copies = lags.iter().filter_map(|lag| {
        let bounds = tails.of(&lag.snapshot)?;
        Some(([("snapshot", &*lag.snapshot)], bounds.current()))
    });
    COPIES.gauges(encoder, copies)?;
    UNDER_REPLICATED.gauge(encoder, tails.under_replicated().len())
}
