//! One state of a snapshot, which decisions read while batches are applied to its clones.
//!
//! `revision` is the state, and its parts about the pods of one namespace each. `apply` applies a
//! batch. A decision reads a `read_view`, also that of other namespaces. `held` is a state
//! that is written out or verified.

pub mod apply;
pub mod held;
pub mod pod_groups;
pub mod read_view;
pub mod revision;
