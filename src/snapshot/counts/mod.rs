//! What is counted of the objects: topologies, partitions and views, kept up to date.

pub mod domain_counts;
pub mod fewest;
pub mod layout;
pub mod partition;
pub mod partitions;
pub mod recent_queries;
pub mod topology;
pub mod upkeep;
pub mod view;
pub mod views;
