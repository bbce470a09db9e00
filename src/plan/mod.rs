//! Plans: what to do about how pods are spread (`docs/planning.md`). Pure functions
//! on a read view of a snapshot, which use the counts and rules of `spread`.
//!
//! `joint` places many pods, in parts (`levels`) that are flows, or by a `search` of all
//! orders. `removals` chooses pods to go, as a flow of least cost (`network`, `choice`).
//! `rebalance` chooses pods to move: `spread_model` has the constraints and pods of a
//! namespace, `moves` searches the fewest moves among their counts (`goal_counts`), `moving`
//! makes each on a copy of the snapshot, where Filter judges it, `mobility` says which pods
//! may move, and `blockers` what is in the way.

mod blockers;
mod cells;
mod choice;
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
mod rebalance_wish;
mod removals;
mod search;
mod sides;
mod spread_model;
mod standing;

pub use blockers::{Blocker, BlockerKind};
pub use joint::JointPlacer;
pub use moving::MoveEffect;
pub use rebalance::{PlannedMove, RebalancePlan, RebalancedWorkload};
pub use rebalance_wish::{RebalanceWish, StayingPods};
pub use removals::{LeftDomain, PlannedRemoval, RemovalPlan, RemovalWish};
