//! A partition that is in use.

use std::sync::Arc;

use super::partition::{Partition, PartitionId};
use super::topology::Topology;

/// A partition and its topology.
#[derive(Debug, Clone)]
pub struct PartitionInUse {
    /// The eligible nodes by domain.
    pub partition: Arc<Partition>,
    /// The domains of all nodes, eligible or not.
    pub topology: Arc<Topology>,
}

impl PartitionInUse {
    /// The number of the partition.
    pub fn id(&self) -> PartitionId {
        self.partition.id()
    }
}
