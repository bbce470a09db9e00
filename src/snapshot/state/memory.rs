//! The memory of a snapshot, by part. It is updated with each change, so it is known without
//! reading the objects, and is on the account of the process.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::{Account, Charge, Part};

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

/// The charge for the objects of a state. `counts::upkeep` has the charge for views and partitions.
#[derive(Debug)]
pub struct Footprint {
    charge: Charge,
    memory: Mutex<MemoryUse>,
}

impl Footprint {
    /// The footprint of an empty state of this many bytes.
    pub fn new(account: &Arc<Account>, part: Part, own_bytes: usize) -> Self {
        let charge = account.open(part);
        charge.set(own_bytes);
        let memory = MemoryUse {
            namespaces: own_bytes,
            ..MemoryUse::default()
        };
        Self {
            charge,
            memory: Mutex::new(memory),
        }
    }

    /// The account with the charge.
    pub fn account(&self) -> &Arc<Account> {
        self.charge.account()
    }

    /// Moves the objects to another part of the account.
    pub fn move_to(&mut self, part: Part) {
        self.charge.move_to(part);
    }

    /// Records the present bytes of the nodes. The caller has locked the nodes.
    pub fn note_nodes(&self, bytes: usize) {
        let mut memory = self.memory.lock();
        self.charge.change(memory.nodes, bytes);
        memory.nodes = bytes;
    }

    /// Records a change of some namespaces from `before` to `after`.
    pub fn change(&self, before: MemoryUse, after: MemoryUse) {
        self.charge.change(before.total(), after.total());
        let mut memory = self.memory.lock();
        *memory += after;
        *memory -= before;
    }

    /// Returns all bytes, without views and partitions.
    pub fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// As [`Self::bytes`], by part.
    pub fn memory(&self) -> MemoryUse {
        *self.memory.lock()
    }
}
