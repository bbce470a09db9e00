//! Compares the counts that a snapshot keeps with those of a state that is built again from the
//! same objects, by the same changes: partitions of the nodes, tables of label sets, views, and
//! what pods and reservations take on each node. A number that differs has drifted, which is always
//! a fault of the program.
//!
//! The comparison reads one state and holds no lock, so it may run at any time. It costs the memory
//! and the time of loading the objects, and a cold count for each partition and each view. Whether
//! the rules are right is not asked here: tests compare every decision with a recount that shares no
//! rule with the service.

mod compare;
mod finding;
#[cfg(test)]
mod tests;

pub use compare::verify;
pub use finding::{Findings, Mismatch, Verification};
