//! What is counted of the objects: topologies, partitions and views, kept up to date.

pub mod discarded;
pub mod domain;
pub mod domain_counts;
pub mod fewest;
pub mod layout;
pub mod partition;
pub mod partition_in_use;
pub mod partitioned_nodes;
pub mod partitions;
pub mod query;
pub mod selector_index;
pub mod topology;
pub mod upkeep;
pub mod usage;
pub mod view;
pub mod views;
pub mod watched;
