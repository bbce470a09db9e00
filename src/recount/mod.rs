//! The brute-force judge: what a decision is, straight from lists of wire
//! objects, by the words of `docs/semantics.md`. Nothing is kept between two
//! questions, and nothing is shared with the service but the wire types.
//!
//! Tests hold every answer against it, and [`crate::verify`] every count that
//! a server keeps. Nothing in the path of a decision may use it: a judge that
//! shares a rule with the judged would share its faults.
//!
//! Objects must be valid, as those of a snapshot are. A question costs the
//! product of nodes, pods and constraints.

mod answers;
mod cluster;
mod constraints;
mod decide;
mod rules;

pub use answers::{
    ConstraintRecount, DomainRecount, FilterRecount, Rejection, ScoreRecount, ScoredNode, Verdict,
};
pub use cluster::Cluster;
pub use constraints::ResolvedConstraint;
pub use decide::node_counted_on;
pub use rules::{
    LabelMap, kept_off_by_cordon, labels, name, namespace, node_affinity_matches, selector_matches,
    taints_tolerated,
};
