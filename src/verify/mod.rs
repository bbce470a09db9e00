//! Holds what a snapshot keeps up to date against a recount: partitions of the
//! nodes, tables of label sets, and views. A number that differs has drifted,
//! which is always a fault of the program.
//!
//! It works on copies and holds no lock, so it may run at any time. It costs a
//! pass over the pods, and one over the nodes for each partition and each view.
//! The rules are those of [`crate::recount`].

mod anti_affinity;
mod compare;
mod finding;
mod nodes;
mod nominated;
mod patrol;
mod pods;
mod room;
mod storage_use;
#[cfg(test)]
pub(crate) mod tests;
mod views;

pub use compare::verify;
pub use finding::{Findings, Mismatch, Verification};
pub use patrol::{Patrol, PatrolStep};
