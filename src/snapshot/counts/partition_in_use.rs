//! A partition that is in use, and its number.

use std::sync::Arc;

use super::partition::{self, Partition};
use super::topology::Topology;
use super::usage::next_number;

/// The number of the members of a partition: a partition whose nodes move gets another one. It is
/// never given out twice, so counts of former members are not mistaken for those of the present
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionId(u64);

impl PartitionId {
    /// A number that no other partition has.
    pub(super) fn next() -> Self {
        Self(next_number())
    }
}

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

    /// A partition without nodes, for a decision that will be discarded.
    pub fn none(key: &partition::Key) -> Self {
        let topology = Topology::default();
        let partition = Partition::empty(key.clone(), &topology, 0);
        Self {
            partition: Arc::new(partition),
            topology: Arc::new(topology),
        }
    }
}
