//! One term of node affinity, and what it reads of a node.

use super::requirement::Requirement;

/// What node affinity reads from a node.
pub trait NodeLabels<V: ?Sized + 'static> {
    /// The node's name.
    fn name(&self) -> &V;
    /// The value of a label.
    fn label(&self, key: &V) -> Option<&V>;
    /// All labels: keys and values.
    fn labels(&self) -> impl Iterator<Item = (&V, &V)>;
    /// Reads a label value.
    fn text<'v>(&'v self, value: &'v V) -> &'v str;
}

/// A term of required node affinity. A node matches it when it meets all of its
/// requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeTerm<A> {
    /// Of labels.
    pub labels: Box<[Requirement<A>]>,
    /// Of the name.
    pub names: Box<[Requirement<A>]>,
}

impl<A> NodeTerm<A> {
    /// How many requirements it has.
    pub fn len(&self) -> usize {
        self.labels.len() + self.names.len()
    }
}
