//! One state of a snapshot, which decisions read while batches are applied to its clones.
//!
//! `revision` is the state, and a `namespace` its part about the pods of one namespace. A batch is
//! applied by `apply` and `pod_change`. A decision reads a `read_view`; `reach` and `beyond` are for
//! terms about other namespaces. `held` is a state that is written out or verified.

pub mod apply;
pub mod beyond;
pub mod growth;
pub mod held;
pub mod namespace;
pub mod pod_change;
pub mod pod_groups;
pub mod reach;
pub mod read_view;
pub mod revision;
