//! A partition that is in use, and its number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::partition::Partition;
use super::topology::Topology;

/// The number of a partition. Its serial part is never given out twice, so a dropped partition is
/// not mistaken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionId {
    pub(super) index: usize,
    pub(super) serial: u64,
}

impl PartitionId {
    /// The index of partitions that are not kept.
    const NOWHERE: usize = usize::MAX;

    /// Returns whether the partition is kept.
    pub fn is_kept(self) -> bool {
        self.index != Self::NOWHERE
    }
}

/// A partition and its topology.
#[derive(Debug, Clone)]
pub struct PartitionInUse {
    /// The number of the partition.
    pub id: PartitionId,
    /// The eligible nodes by domain.
    pub partition: Arc<Partition>,
    /// The domains of all nodes, eligible or not.
    pub topology: Arc<Topology>,
}

impl PartitionInUse {
    /// A partition that is not kept. Each of these has its own number, even if several are made for
    /// the same decision.
    pub(in crate::snapshot) fn unkept(topology: Arc<Topology>, partition: Arc<Partition>) -> Self {
        Self {
            id: PartitionId {
                index: PartitionId::NOWHERE,
                serial: next_serial(),
            },
            partition,
            topology,
        }
    }
}

/// The serial number of the next partition. One counter serves all, so that partitions of a copy of
/// the nodes are not mistaken for others either.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

/// A serial number that no other partition has.
pub(super) fn next_serial() -> u64 {
    NEXT_SERIAL.fetch_add(1, Ordering::Relaxed)
}

/// A number above all serial numbers that were given out.
pub(super) fn unused_serial() -> u64 {
    NEXT_SERIAL.load(Ordering::Relaxed)
}
