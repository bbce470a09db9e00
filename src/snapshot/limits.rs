//! What a client can make grow, and how far.

use std::time::Duration;

/// Limits on everything that a client can make grow. Each is a flag of
/// `evenkeel serve` by the same name.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Changes in one `UpdateSnapshotRequest`: a batch is applied while
    /// readers of its namespaces wait.
    pub max_changes_per_batch: usize,
    /// Changes in one what-if overlay: it is applied to a fork of the state.
    pub max_overlay_changes: usize,
    /// Spread constraints of one pod, and default constraints.
    pub max_constraints_per_pod: usize,
    /// Named snapshots.
    pub max_snapshots: usize,
    /// Nodes of one snapshot.
    pub max_nodes: usize,
    /// Pods of one snapshot.
    pub max_pods: usize,
    /// Distinct (namespace, labels) among the pods of one snapshot.
    pub max_label_sets: usize,
    /// Services and owners (replica sets, stateful sets, replication
    /// controllers) of one snapshot.
    pub max_owners: usize,
    /// Bytes that the views of one snapshot may take: counts that are kept up
    /// to date for questions asked before. As much again may go to partitions:
    /// sets of eligible nodes, parted into domains, that views are of. Dropping one never changes an
    /// answer, only how fast it comes.
    pub max_view_bytes: usize,
    /// Replicas of one `Place`, and reservations confirmed or released at once.
    pub max_replicas: usize,
    /// Scores that the steps of one Fleet `Place` may list: one per step and
    /// cluster.
    pub max_step_scores: usize,
    /// Live reservations of one snapshot.
    pub max_reservations: usize,
    /// The longest that a reservation may be held.
    pub max_reservation_ttl: Duration,
    /// Bytes of what a stored pod asks for: owners, node selector, affinity,
    /// tolerations and constraints. Kept once for pods that ask for the same.
    pub max_pod_spec_bytes: usize,
    /// Bytes of a string that has no shorter limit of Kubernetes' own: a uid, an
    /// owner of reservations, a name among candidates.
    pub max_string_bytes: usize,
}

impl Limits {
    /// No limit on anything: for what was accepted once. It is whatever the
    /// limits are now; they refuse only what is new.
    pub fn none() -> Self {
        Self {
            max_changes_per_batch: usize::MAX,
            max_overlay_changes: usize::MAX,
            max_constraints_per_pod: usize::MAX,
            max_snapshots: usize::MAX,
            max_nodes: usize::MAX,
            max_pods: usize::MAX,
            max_label_sets: usize::MAX,
            max_owners: usize::MAX,
            max_view_bytes: usize::MAX,
            max_replicas: usize::MAX,
            max_step_scores: usize::MAX,
            max_reservations: usize::MAX,
            max_reservation_ttl: Duration::MAX,
            max_pod_spec_bytes: usize::MAX,
            max_string_bytes: usize::MAX,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_changes_per_batch: 100_000,
            max_overlay_changes: 1_000,
            max_constraints_per_pod: 32,
            max_snapshots: 1_000,
            max_nodes: 200_000,
            max_pods: 10_000_000,
            max_label_sets: 5_000_000,
            max_owners: 1_000_000,
            max_view_bytes: 256 << 20,
            max_replicas: 100_000,
            max_step_scores: 1_000_000,
            max_reservations: 100_000,
            max_reservation_ttl: Duration::from_secs(3_600),
            max_pod_spec_bytes: 64 << 10,
            max_string_bytes: 4_096,
        }
    }
}
