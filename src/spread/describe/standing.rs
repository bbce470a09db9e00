//! By what constraints a workload is held even, if by any.

/// What holds a workload even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadStanding {
    /// Constraints of its own.
    Constrained,
    /// Default constraints.
    Defaulted,
    /// Nothing, although it has several pods.
    Unconstrained(Concentration),
    /// Nothing, and it has a single pod.
    Single,
    /// Nothing could: each of its pods may run on one node only, as those of
    /// daemon sets and static pods.
    Fixed,
    /// It is not known: the spec of its pods is invalid.
    Faulty,
}

/// Whether the pods of a workload are all in one place, though there are others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Concentration {
    /// In one of several zones that it may run in.
    pub in_one_zone: bool,
    /// On one of several nodes.
    pub on_one_node: bool,
}
