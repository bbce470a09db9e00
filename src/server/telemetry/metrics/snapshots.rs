//! Snapshots: their size, age and memory. Each of the largest has its own
//! label. The others share one, so that a client that creates many does not
//! blow up the scrape.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, bytes, plain, seconds};
use crate::snapshot::{MemoryUse, Registry, Summary};

/// The label value of all snapshots that have none of their own; no name of a
/// snapshot has parentheses.
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
const MEMORY: Family = bytes("snapshot_memory", "Estimated memory, by part");

/// The snapshots of a registry.
pub(super) struct SnapshotMetrics {
    pub(super) registry: Arc<Registry>,
    /// How many have a label of their own.
    pub(super) labelled: usize,
}

impl fmt::Debug for SnapshotMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotMetrics").finish_non_exhaustive()
    }
}

/// The values under one label.
struct SnapshotFigures {
    name: String,
    revision: Option<i64>,
    synced: bool,
    stale: bool,
    age: f64,
    lag: f64,
    objects: [(&'static str, usize); 5],
    views: usize,
    reservations: usize,
    memory: MemoryUse,
}

impl SnapshotFigures {
    fn of(summary: &Summary) -> Self {
        let sizes = &summary.sizes;
        Self {
            name: summary.name.clone(),
            revision: Some(summary.revision),
            synced: summary.synced,
            stale: summary.stale,
            age: summary.unchanged_for.as_secs_f64(),
            lag: summary.lag.as_secs_f64(),
            objects: [
                ("node", sizes.nodes),
                ("pod", sizes.pods),
                ("namespace", summary.namespaces),
                ("label_set", sizes.label_sets),
                ("owner", sizes.owners),
            ],
            views: summary.views,
            reservations: summary.reservations,
            memory: summary.memory,
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.name = OTHERS.into();
        self.revision = None;
        self.synced &= other.synced;
        self.stale |= other.stale;
        self.age = self.age.max(other.age);
        self.lag = self.lag.max(other.lag);
        for (mine, (_, theirs)) in self.objects.iter_mut().zip(other.objects) {
            mine.1 += theirs;
        }
        self.views += other.views;
        self.reservations += other.reservations;
        self.memory += other.memory;
        self
    }
}

impl SnapshotMetrics {
    fn told(&self) -> Vec<SnapshotFigures> {
        let mut all: Vec<_> = self.registry.list("");
        let size = |snapshot: &Summary| snapshot.sizes.nodes + snapshot.sizes.pods;
        // Expected snapshots matter whatever their size.
        let mut summaries: Vec<_> = all
            .drain(..)
            .map(|snapshot| (snapshot.is_expected(), snapshot.summary()))
            .collect();
        summaries.sort_by_key(|(expected, summary)| Reverse((*expected, size(summary))));
        let told = summaries
            .iter()
            .map(|(_, summary)| SnapshotFigures::of(summary));
        let mut told: Vec<SnapshotFigures> = told.collect();
        if told.len() > self.labelled {
            let others = told.split_off(self.labelled).into_iter();
            told.extend(
                others
                    .reduce(SnapshotFigures::merge)
                    .map(|others| SnapshotFigures {
                        name: OTHERS.into(),
                        revision: None,
                        ..others
                    }),
            );
        }
        told
    }
}

impl Collector for SnapshotMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let told = self.told();
        let each = |of: fn(&SnapshotFigures) -> f64| told.iter().map(move |t| (label(t), of(t)));
        COUNT.gauge(&mut encoder, self.registry.list("").len())?;
        SYNCED.gauges(&mut encoder, each(|t| f64::from(u8::from(t.synced))))?;
        STALE.gauges(&mut encoder, each(|t| f64::from(u8::from(t.stale))))?;
        let revisions = told.iter().filter_map(|t| Some((label(t), t.revision?)));
        REVISION.gauges(&mut encoder, revisions)?;
        AGE.gauges(&mut encoder, each(|t| t.age))?;
        LAG.gauges(&mut encoder, each(|t| t.lag))?;
        let objects = told.iter().flat_map(|t| {
            let kinds = t.objects.iter();
            kinds.map(|(kind, count)| ([label(t)[0], ("kind", *kind)], *count))
        });
        OBJECTS.gauges(&mut encoder, objects)?;
        let views = told.iter().map(|t| (label(t), t.views));
        VIEWS.gauges(&mut encoder, views)?;
        let reservations = told.iter().map(|t| (label(t), t.reservations));
        RESERVATIONS.gauges(&mut encoder, reservations)?;
        let memory = told.iter().flat_map(|t| {
            let parts = t.memory.parts().into_iter();
            parts.map(|(part, bytes)| ([label(t)[0], ("part", part)], bytes))
        });
        MEMORY.gauges(&mut encoder, memory)
    }
}

fn label(told: &SnapshotFigures) -> [(&str, &str); 1] {
    [("snapshot", told.name.as_str())]
}
