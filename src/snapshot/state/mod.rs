//! One state of a snapshot, which batches change and decisions read.
//!
//! `shards` is the state and its locks; a shard (`namespace`) has the data of one namespace. A
//! batch is applied in place (`apply`, `pod_change`) or to copies (`publish`). A decision reads a
//! `read_view`, either live (`locked`) or on a `fork`; `reach` and `beyond` are for terms about
//! other namespaces.

pub mod apply;
pub mod beyond;
pub mod fork;
pub mod frozen;
pub mod growth;
pub mod locked;
pub mod memory;
pub mod namespace;
pub mod pod_change;
pub mod pod_groups;
pub mod publish;
pub mod reach;
pub mod read_view;
pub mod shards;
