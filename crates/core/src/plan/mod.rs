//! Plans of changes that improve the spread of pods (`docs/planning.md`). They are pure functions
//! on a read view of a snapshot, use the counts and rules of `spread`, and return messages, which the
//! service completes.
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

pub use joint::pick;
pub use movable::{EvictionRules, StayingPods};
pub use nodes_drain::{DrainOptions, drain_nodes};
pub use nodes_need::{NeedOptions, NeededPods, need_nodes};
pub use nodes_spare::{SpareOptions, spare_nodes};
pub use rebalance::{RebalanceOptions, rebalance};
pub use removals::{RemovalOptions, ReplicaSetShare, rank_removals, sizes_after};
