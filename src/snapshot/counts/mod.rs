//! What is counted of the objects: topologies, partitions and views, kept up to date.
//!
//! - `topology`: the numbered values of a topology key. `partition`: the nodes that a
//!   constraint counts in, by domain; `partitioned_nodes` are the nodes with all of these.
//! - `view`: matching pods per domain; `views` are those of a namespace, found by a label
//!   set through `watched` and `selector_index`.
//! - `query`: a question to the counts, and which questions deserve a view.
//! - `discarded`, `usage`, `upkeep`: when views and partitions go.

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
