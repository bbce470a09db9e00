//! Plans of changes that improve the spread of pods (`docs/planning.md`). They are pure functions
//! on a read view of a snapshot and use the counts and rules of `spread`.
//!
//! `joint` places many pods: in parts (`levels`) that are flows (`network`) through classes of nodes,
//! or by trying all orders. `removals` chooses pods to remove, as a flow of least cost. `rebalance` chooses
//! pods to move, and names the causes that remain: `spread_model` has the constraints and pods of a
//! namespace, and makes each move on a copy of the snapshot, where Filter judges it; `moves` searches for
//! the fewest moves by counts; `movable` has the pods that may move, and the reasons why others stay.
//! `nodes_drain` empties nodes in the same way, `nodes_spare` finds nodes that can be emptied together, and
//! `nodes_need` places pods jointly on nodes that do not exist yet.

mod joint;
mod levels;
mod movable;
mod moves;
mod network;
mod nodes_drain;
mod nodes_need;
mod nodes_spare;
mod rebalance;
mod removals;
mod spread_model;

pub use joint::picker;
pub use movable::{EvictionRules, MoveEffect, StayingPods};
pub use nodes_drain::{DrainOptions, DrainPlan, PodOfNode};
pub use nodes_need::{NeedOptions, NeedPlan, NeededPods};
pub use nodes_spare::SpareOptions;
pub use rebalance::{
    Blocker, BlockerKind, PlannedMove, RebalanceOptions, RebalancePlan, RebalancedWorkload,
};
pub use removals::{
    LeftDomain, PlannedRemoval, RemovalOptions, RemovalPlan, RemovalRule, ReplicaSetShare,
    ShrunkRevision, sizes_after,
};
