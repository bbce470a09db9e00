//! What a snapshot takes in memory, by part.

use std::ops::AddAssign;

/// What a snapshot takes in memory, by part: an estimate, in bytes.
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
    /// What stored pods ask for.
    pub templates: usize,
    /// Services and controllers.
    pub owners: usize,
    /// Views, with the selectors that they are of.
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
}

impl AddAssign for MemoryUse {
    fn add_assign(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.partitions += other.partitions;
        self.namespaces += other.namespaces;
        self.pods += other.pods;
        self.label_sets += other.label_sets;
        self.templates += other.templates;
        self.owners += other.owners;
        self.views += other.views;
        self.reservations += other.reservations;
    }
}

/// The kept memory beside the measured one.
#[derive(Debug)]
pub struct Measured {
    /// The namespace; empty for what all namespaces share.
    pub namespace: Box<str>,
    /// What is kept.
    pub kept: MemoryUse,
    /// What a new measurement says.
    pub measured: MemoryUse,
}
