//! One state of a snapshot: how a batch is applied to it and a decision reads it.

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
pub mod reading;
pub mod shards;
