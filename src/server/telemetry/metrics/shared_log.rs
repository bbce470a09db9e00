//! The log that several servers share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain};
use crate::replica::Counts;
use crate::server::telemetry::sources::SharedLogSource;

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
pub(super) fn encode(
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
