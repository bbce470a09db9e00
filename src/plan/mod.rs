//! Plans: what to do about how pods are spread (`docs/planning.md`). Pure functions
//! on a read view of a snapshot, which use the counts and rules of `spread`.
//!
//! `joint` places many pods, in parts (`levels`) that are flows, or by a `search` of all
//! orders. `removals` chooses pods to go, as a flow of least cost (`network`, `choice`).

mod cells;
mod choice;
mod deletion_order;
mod exchange;
mod joint;
mod levels;
mod network;
mod removals;
mod search;
mod sides;
mod standing;

pub use joint::JointPlacer;
pub use removals::{LeftDomain, PlannedRemoval, RemovalPlan, RemovalWish};
