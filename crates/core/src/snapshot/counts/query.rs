//! Queries to the counts.

use super::partition;
use crate::matching::Selector;

/// A query for the number of pods that match `selector` in each domain of a partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Selects the pods that are counted.
    pub selector: &'a Selector,
    /// The nodes that are counted in, and their domains.
    pub partition: &'a partition::Key,
}
