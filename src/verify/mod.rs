//! Compares the counts of a snapshot with a recount: partitions of the nodes, tables of label sets,
//! and views. A number that differs has drifted, which is always a fault of the program.
//!
//! The comparison works on copies and holds no lock, so it may run at any time. It costs a pass
//! over the pods, and one over the nodes for each partition and each view. The rules are those of
//! [`crate::recount`].

mod background;
mod compare;
mod finding;
mod nodes;
mod nominated;
mod pod_terms;
mod pods;
mod room;
mod storage_use;
#[cfg(test)]
pub(crate) mod tests;
mod views;

pub use background::{BackgroundVerifier, VerificationStep};
pub use compare::verify;
pub use finding::{Findings, Mismatch, Verification};
