//! Plans of changes that improve the spread of pods (`docs/planning.md`). They are pure functions
//! on a read view of a snapshot and use the counts and rules of `spread`.
//!
//! `joint` places many pods: in parts (`levels`) that are flows (`network`) through classes of nodes,
//! or by trying all orders. `removals` chooses pods to remove, as a flow of least cost (`choice`). `rebalance`
//! chooses pods to move: `spread_model` has the constraints and pods of a namespace, `moves` searches
//! for the fewest moves by counts, `moving` makes each move on a copy of the snapshot, where Filter
//! judges it, `mobility` has the reasons why pods stay, and `blockers` the causes that remain.
//! `movable` has the pods that may move. `nodes_drain` empties nodes in the same way, with `node_pods`,
//! which has the pods of nodes, and `nodes_search`, which tries every way; `nodes_spare` finds nodes that can be emptied together, and `nodes_need` places pods jointly on
//! nodes that do not exist yet.

mod blockers;
mod choice;
mod joint;
mod levels;
mod mobility;
mod movable;
mod moves;
mod moving;
mod network;
mod node_pods;
mod nodes_drain;
mod nodes_need;
mod nodes_spare;
mod rebalance;
mod removals;
mod spread_model;

pub use blockers::{Blocker, BlockerKind};
pub use joint::picker;
pub use mobility::{EvictionRules, StayingPods};
pub use movable::MoveEffect;
pub use node_pods::PodOfNode;
pub use nodes_drain::{DrainOptions, DrainPlan};
pub use nodes_need::{NeedOptions, NeedPlan, NeededPods};
pub use nodes_spare::SpareOptions;
pub use rebalance::{PlannedMove, RebalanceOptions, RebalancePlan, RebalancedWorkload};
pub use removals::{
    LeftDomain, PlannedRemoval, RemovalOptions, RemovalPlan, RemovalRule, ReplicaSetShare,
    ShrunkRevision, sizes_after,
};
