//! The observer of snapshots, which learns when one starts or stops being able to answer.

/// Learns when a snapshot starts or stops being able to answer. It is called in the middle of a
/// change of the snapshot, so it must not wait for anything.
pub trait Observer: Send + Sync {
    /// The snapshot exists; `synced` says whether decisions on it are answered.
    fn snapshot_changed(&self, name: &str, synced: bool);
    /// The snapshot became older than its maximum age, or stopped being so.
    fn snapshot_stale(&self, name: &str, stale: bool) {
        let _ = (name, stale);
    }
    /// The snapshot was deleted.
    fn snapshot_deleted(&self, name: &str);
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn snapshot_changed(&self, _: &str, _: bool) {}
    fn snapshot_deleted(&self, _: &str) {}
}
