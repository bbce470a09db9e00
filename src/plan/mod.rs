//! Plans: what to do about how pods are spread (`docs/planning.md`). Pure functions
//! on a read view of a snapshot, which use the counts and rules of `spread`.

mod cells;
mod choice;
mod deletion_order;
mod exchange;
mod network;
mod removals;
mod sides;

pub use removals::{LeftDomain, PlannedRemoval, RemovalPlan, RemovalWish};
