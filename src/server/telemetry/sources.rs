//! The figures of the rest of the server that telemetry reads when it is asked. Telemetry knows the
//! rest only by these.

use std::sync::Arc;

use super::counts::{PortCounts, SecurityCounts, Tails};
use crate::decision_log::DecisionLog;
use crate::kubernetes::FeedCounts;
use crate::replica::Replica;
use crate::snapshot::Registry;
use crate::store::StoreCounts;

/// Tells whether the server may be sent calls.
pub trait Readiness: Send + Sync {
    /// The reasons why the server is not ready; none when it is.
    fn unready(&self) -> Vec<String>;

    /// The snapshots that are older than their maximum age.
    fn stale(&self) -> Vec<String>;
}

/// A server's part in a fleet.
pub struct SharedLogSource {
    pub replica: Arc<Replica>,
    pub tails: Arc<Tails>,
}

impl SharedLogSource {
    /// Returns the faults of the logs and the copies that are not current, a line each.
    pub(super) fn troubles(&self) -> Vec<String> {
        let mut lines = self.replica.troubles();
        lines.extend(self.tails.under_replicated());
        lines
    }
}

/// All sources of figures.
pub struct Sources {
    pub port: Arc<PortCounts>,
    pub health: Arc<dyn Readiness>,
    pub registry: Arc<Registry>,
    /// The decision log; `None` when decisions are not logged.
    pub decision_log: Option<DecisionLog>,
    /// The counters of the store; `None` when the state is in memory only.
    pub store: Option<Arc<StoreCounts>>,
    /// The shared log; `None` when the server shares none.
    pub shared_log: Option<SharedLogSource>,
    pub security: Arc<SecurityCounts>,
    /// Feeds that run inside this process.
    pub feeds: Vec<Arc<FeedCounts>>,
}
