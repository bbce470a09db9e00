//! What is asked of the counts.

use super::partition;
use crate::matching::Selector;

/// A question: how many pods that match `selector` count in each domain of a
/// partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Which pods are counted.
    pub selector: &'a Selector,
    /// Which nodes are looked at, and what parts them.
    pub partition: &'a partition::Key,
}
