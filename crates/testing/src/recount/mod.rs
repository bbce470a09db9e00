//! A second implementation of decisions, by brute force from plain lists of wire objects, as
//! `docs/semantics.md` words them. It keeps nothing between two questions, and shares only the wire
//! types with the service.
//!
//! Tests compare every answer with it. It shares no rule with the service: if it
//! did, it would share that rule's faults.
//!
//! Objects must be valid, as those of a snapshot are. A question costs the
//! product of nodes, pods and constraints.

mod answers;
mod binding;
mod cluster;
mod constraints;
mod decide;
mod features;
mod left_out;
mod nominated;
mod place;
mod pod_affinity;
pub mod requests;
mod reserved;
pub mod room;
mod rules;
mod volumes;

pub use answers::{
    ConstraintRecount, DomainRecount, FilterRecount, NodeRecount, Rejection, ScoreRecount,
    ScoredNode,
};
pub use cluster::Cluster;
pub use constraints::ResolvedConstraint;
pub use decide::{is_of_each_node, node_counted_on};
pub use nominated::{node_promised, priority};
pub use place::PickedNode;
pub use pod_affinity::with_merged_terms;
pub use rules::{
    LabelMap, kept_off_by_cordon, labels, name, namespace, node_affinity_matches, selector_matches,
    taints_tolerated,
};
