//! What all snapshots together did: views, batches, reservations.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain};
use crate::snapshot::Registry;

const LOOKUPS: Family = plain(
    "view_lookups",
    "Counts that decisions asked for: answered by a kept view (hit), or by building one (built)",
);
const QUESTIONS: Family = plain(
    "question_lookups",
    "Questions about a pod: asked before and kept (hit), or decoded and checked (compiled)",
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
const VERIFIED: Family = plain(
    "verified_views",
    "Views that the background verification recounted",
);
const MISMATCHES: Family = plain(
    "verify_mismatches",
    "Numbers that had drifted from a recount: anything but 0 is a bug",
);
const REPAIRS: Family = plain(
    "verify_repairs",
    "Snapshots that were rebuilt because a number had drifted",
);

/// The counters of a registry.
pub(super) struct WorkMetrics(pub(super) Arc<Registry>);

impl fmt::Debug for WorkMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkMetrics").finish_non_exhaustive()
    }
}

impl Collector for WorkMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = self.0.counters();
        let lookups = [
            ("hit", &counters.view_hits),
            ("built", &counters.view_builds),
        ];
        let lookups = lookups.map(|(result, count)| ([("result", result)], count.sum()));
        LOOKUPS.counters(&mut encoder, lookups)?;
        let questions = [
            ("hit", &counters.question_hits),
            ("compiled", &counters.question_misses),
        ];
        let questions = questions.map(|(result, count)| ([("result", result)], count.sum()));
        QUESTIONS.counters(&mut encoder, questions)?;
        DROPPED.counter(&mut encoder, read(&counters.views_dropped))?;
        BATCHES.counter(&mut encoder, read(&counters.batches))?;
        REPLACES.counter(&mut encoder, read(&counters.replaces))?;
        let changes = [
            ("changed", &counters.changed),
            ("unchanged", &counters.unchanged),
        ];
        let changes = changes.map(|(result, count)| ([("result", result)], read(count)));
        CHANGES.counters(&mut encoder, changes)?;
        RESERVED.counter(&mut encoder, read(&counters.reserved))?;
        EXPIRED.counter(&mut encoder, read(&counters.expired))?;
        VERIFIED.counter(&mut encoder, read(&counters.verified_views))?;
        MISMATCHES.counter(&mut encoder, read(&counters.mismatches))?;
        REPAIRS.counter(&mut encoder, read(&counters.repairs))
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
