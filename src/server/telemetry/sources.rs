//! What telemetry reads of the rest of the server when it is asked: the rest
//! notes to telemetry, and telemetry knows it as these figures alone.

use std::sync::Arc;

use super::counts::{SecurityCounts, Threads};
use crate::decision_log::DecisionLog;
use crate::snapshot::Registry;
use crate::store::StoreCounts;

/// Whether the server may be sent calls.
pub(in crate::server) trait Readiness: Send + Sync {
    /// Why it is not ready; nothing when it is.
    fn unready(&self) -> Vec<String>;

    /// The snapshots that are older than they may get.
    fn stale(&self) -> Vec<String>;
}

/// What is open on the port.
#[derive(Debug)]
pub(in crate::server) struct PortLoad {
    /// Calls under way, without feeds.
    pub(in crate::server) calls: usize,
    /// Feeds open now.
    pub(in crate::server) feeds: usize,
    /// Health watches open now.
    pub(in crate::server) watches: usize,
    /// Reflection streams open now.
    pub(in crate::server) reflections: usize,
    /// Connections open now.
    pub(in crate::server) connections: usize,
    /// Connections accepted since the start.
    pub(in crate::server) accepted: u64,
}

/// Reads the load of the port.
pub(in crate::server) type ReadPort = Box<dyn Fn() -> PortLoad + Send + Sync>;

/// All that is read.
pub(in crate::server) struct Sources {
    pub(in crate::server) port: ReadPort,
    pub(in crate::server) threads: Arc<Threads>,
    pub(in crate::server) health: Arc<dyn Readiness>,
    pub(in crate::server) registry: Arc<Registry>,
    /// None when decisions are not logged.
    pub(in crate::server) decision_log: Option<DecisionLog>,
    /// None when the state is in memory only.
    pub(in crate::server) store: Option<Arc<StoreCounts>>,
    pub(in crate::server) security: Arc<SecurityCounts>,
}
