//! Plans: what to do about how pods are spread (`docs/planning.md`). Pure functions
//! on a read view of a snapshot, which use the counts and rules of `spread`.
//!
//! `joint` places many pods, in parts (`levels`) that are flows through `classes` of nodes, or by a
//! `search` of all orders, of which `best_scored` finds the one with the best scores. `removals`
//! chooses pods to go, as a flow of least cost (`network`, `choice`), and `deletion_costs` says what to write on pods so that a ReplicaSet deletes them in that order.
//! `rebalance` chooses pods to move: `spread_model` has the constraints and pods of a
//! namespace, `moves` searches the fewest moves among their counts (`goal_counts`), `moving`
//! makes each on a copy of the snapshot, where Filter judges it, `mobility` says which pods
//! may move, and `blockers` what is in the way.

mod best_scored;
mod blockers;
mod cells;
mod choice;
mod classes;
mod deletion_costs;
mod deletion_order;
mod exchange;
mod goal_counts;
mod joint;
mod levels;
mod mobility;
mod moves;
mod moving;
mod network;
mod rebalance;
mod rebalance_options;
mod removals;
mod search;
mod sides;
mod spread_model;
mod standing;

pub use blockers::{Blocker, BlockerKind};
pub use deletion_costs::deletion_costs;
pub use joint::picker;
pub use moving::MoveEffect;
pub use rebalance::{PlannedMove, RebalancePlan, RebalancedWorkload};
pub use rebalance_options::{RebalanceOptions, StayingPods};
pub use removals::{LeftDomain, PlannedRemoval, RemovalOptions, RemovalPlan};
