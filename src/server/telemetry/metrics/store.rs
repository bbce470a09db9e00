//! The state directory.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, bytes, plain, seconds};
use crate::store::StoreCounts;

const COMMITS: Family = plain("store_commits", "Transactions of the state directory");
const COMMIT_TIME: Family = seconds("store_commit", "Time that its transactions took");
const REFUSED: Family = plain(
    "store_refusals",
    "Calls that were refused because the disk was full",
);
const SIZE: Family = bytes("store_size", "Bytes of the state on the disk");
const WRITABLE: Family = plain(
    "store_writable",
    "1 when the state directory could be written when that was last tried",
);
const LOST: Family = plain(
    "store_lost_commits",
    "Commits that the state directory had lost when it was opened",
);
const RESTORE_TIME: Family = seconds(
    "store_restore",
    "Time that restoring the state took at the start",
);

/// The counts of a state directory.
#[derive(Debug)]
pub(super) struct StoreMetrics(pub(super) Arc<StoreCounts>);

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.0.figures();
        COMMITS.counter(&mut encoder, figures.commits)?;
        COMMIT_TIME.counter(&mut encoder, figures.commit_time.as_secs_f64())?;
        REFUSED.counter(&mut encoder, figures.refused_for_space)?;
        WRITABLE.gauge(&mut encoder, i64::from(figures.is_writable))?;
        LOST.gauge(
            &mut encoder,
            i64::try_from(figures.lost_commits).unwrap_or(i64::MAX),
        )?;
        SIZE.gauge(&mut encoder, figures.bytes)?;
        RESTORE_TIME.gauge(&mut encoder, figures.restore_time.as_secs_f64())
    }
}
