//! The memory of a snapshot, by part. It is updated with each change, so it is known without
//! reading the objects.

use std::ops::{Add, AddAssign, Sub, SubAssign};
/// The memory of a snapshot, by part: an estimate, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Nodes with their labels and taints.
    pub nodes: usize,
    /// Topologies and partitions, with their keys.
    pub partitions: usize,
    /// Namespaces without their contents, and the fixed part of a snapshot.
    pub namespaces: usize,
    /// Pods and their names.
    pub pods: usize,
    /// Label sets and their counts by node.
    pub label_sets: usize,
    /// The requirements of stored pods.
    pub templates: usize,
    /// Services and controllers.
    pub owners: usize,
    /// Views, with their selectors.
    pub views: usize,
    /// Reservations.
    pub reservations: usize,
}

impl MemoryUse {
    /// All parts by name.
    pub fn parts(&self) -> [(&'static str, usize); 9] {
        [
            ("nodes", self.nodes),
            ("partitions", self.partitions),
            ("namespaces", self.namespaces),
            ("pods", self.pods),
            ("label_sets", self.label_sets),
            ("templates", self.templates),
            ("owners", self.owners),
            ("views", self.views),
            ("reservations", self.reservations),
        ]
    }

    /// The sum of all parts.
    pub fn total(&self) -> usize {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Combines each part with the same part of another by `f`.
    fn with(self, other: Self, f: impl Fn(usize, usize) -> usize) -> Self {
        Self {
            nodes: f(self.nodes, other.nodes),
            partitions: f(self.partitions, other.partitions),
            namespaces: f(self.namespaces, other.namespaces),
            pods: f(self.pods, other.pods),
            label_sets: f(self.label_sets, other.label_sets),
            templates: f(self.templates, other.templates),
            owners: f(self.owners, other.owners),
            views: f(self.views, other.views),
            reservations: f(self.reservations, other.reservations),
        }
    }
}

impl AddAssign for MemoryUse {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, usize::add);
    }
}

impl SubAssign for MemoryUse {
    fn sub_assign(&mut self, other: Self) {
        *self = self.with(other, usize::sub);
    }
}
