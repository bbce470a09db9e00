//! The figures of the rest of the server that telemetry reads when it is asked. Telemetry knows the
//! rest only by these.

use std::sync::Arc;

use super::counts::{SecurityCounts, Tails, Threads};
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

/// The connections and calls that are open on the port.
#[derive(Debug)]
pub struct PortLoad {
    /// Calls under way, without feeds.
    pub calls: usize,
    /// Feeds open now.
    pub feeds: usize,
    /// Open streams of questions.
    pub decision_streams: usize,
    /// Health watches open now.
    pub watches: usize,
    /// Reflection streams open now.
    pub reflections: usize,
    /// Connections open now.
    pub connections: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
}

/// Reads the load of the port.
pub type ReadPort = Box<dyn Fn() -> PortLoad + Send + Sync>;

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
    pub port: ReadPort,
    pub threads: Arc<Threads>,
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
