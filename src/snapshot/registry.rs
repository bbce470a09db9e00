//! The named snapshots.

use std::sync::Arc;

use super::Limits;

/// Told when a snapshot starts or stops being able to answer.
pub trait Observer: Send + Sync {
    /// The snapshot exists; `synced` says whether decisions on it are answered.
    fn snapshot_changed(&self, name: &str, synced: bool);
    /// The snapshot was deleted.
    fn snapshot_deleted(&self, name: &str);
}

/// The named snapshots.
pub struct Registry {
    _limits: Limits,
    _observer: Arc<dyn Observer>,
}

impl Registry {
    /// An empty registry.
    pub fn new(limits: Limits, observer: Arc<dyn Observer>) -> Self {
        Self {
            _limits: limits,
            _observer: observer,
        }
    }

    /// Creates a snapshot that is synced only from its first replace on, so
    /// that a restarted, still empty server never answers for it.
    pub fn expect(&self, _name: &str) {}
}
