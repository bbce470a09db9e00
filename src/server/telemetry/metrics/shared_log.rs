//! The log that several servers share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, plain};
use crate::replica::Counts;
use crate::server::telemetry::sources::SharedLogSource;

type Read = fn(&Counts) -> &AtomicU64;

const COUNTERS: [(Family, Read); 11] = [
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
            "log_reread",
            "Messages that came damaged or not at all, and were read elsewhere",
        ),
        |counts| &counts.reread,
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
        plain(
            "log_differences",
            "Times that servers held different things after the same record",
        ),
        |counts| &counts.differences,
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
    "Logs that cannot be followed now, and copies of them that lack something; /readyz says which",
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
    let tails = lags.iter().map(|lag| {
        // The log is at least as long as the part that was read.
        let tail = tails.of(&lag.snapshot).max(lag.applied);
        ([("snapshot", &*lag.snapshot)], tail)
    });
    TAIL.gauges(encoder, tails)
}
