//! The log that several servers share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
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
    "Logs that cannot be followed now; the server's log says why",
);

/// A server's part in a fleet.
#[derive(Debug)]
pub(super) struct SharedLogMetrics {
    pub(super) source: SharedLogSource,
    /// How many snapshots have their own label.
    pub(super) labelled: usize,
}

impl Collector for SharedLogMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let replica = &self.source.replica;
        for (family, read) in &COUNTERS {
            let value = read(replica.counts()).load(Ordering::Relaxed);
            family.counter(&mut encoder, value)?;
        }
        REACHABLE.gauge(&mut encoder, i64::from(self.source.tails.is_reachable()))?;
        let mut lags = replica.lags();
        let troubles = lags.iter().filter(|lag| lag.trouble.is_some()).count();
        TROUBLES.gauge(&mut encoder, number(troubles as u64))?;
        lags.sort_unstable_by(|a, b| a.snapshot.cmp(&b.snapshot));
        lags.truncate(self.labelled);
        let applied = lags
            .iter()
            .map(|lag| ([("snapshot", &*lag.snapshot)], number(lag.applied)));
        APPLIED.gauges(&mut encoder, applied)?;
        let tails = lags.iter().map(|lag| {
            // It was at least as long as what was read of it.
            let tail = self.source.tails.of(&lag.snapshot).max(lag.applied);
            ([("snapshot", &*lag.snapshot)], number(tail))
        });
        TAIL.gauges(&mut encoder, tails)
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
