//! The clusters that are measured.

use support::synth::{Shape, SyntheticCluster};

/// The sizes: nodes, pods, workloads.
pub const SIZES: [(usize, usize, usize); 5] = [
    (100, 3_000, 100),
    (1_000, 30_000, 300),
    (5_000, 150_000, 1_000),
    (15_000, 450_000, 3_000),
    (100_000, 3_000_000, 10_000),
];

/// A cluster of a size, with one node in ten tainted.
pub fn cluster((nodes, pods, workloads): (usize, usize, usize), zones: usize) -> SyntheticCluster {
    SyntheticCluster::new(Shape {
        nodes,
        pods,
        zones,
        workloads,
        namespaces: 1,
        taint_every: 10,
        seed: 1,
    })
}
