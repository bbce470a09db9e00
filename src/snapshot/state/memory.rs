//! What a snapshot takes in memory, by part. It is updated as changes happen, so it is
//! known without looking at the objects, and is on the account of the process.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::{Account, Gauge, Part};

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

    /// Each part as `f` makes it of this and the same part of another.
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

/// The objects of a state on the account. Views and partitions are kept by
/// `counts::upkeep`.
#[derive(Debug)]
pub struct Footprint {
    gauge: Gauge,
    memory: Mutex<MemoryUse>,
}

impl Footprint {
    /// For an empty state that takes this many bytes itself.
    pub fn new(account: &Arc<Account>, part: Part, own_bytes: usize) -> Self {
        let gauge = account.gauge(part);
        gauge.set(own_bytes);
        let memory = MemoryUse {
            namespaces: own_bytes,
            ..MemoryUse::default()
        };
        Self {
            gauge,
            memory: Mutex::new(memory),
        }
    }

    /// The account that it is on.
    pub fn account(&self) -> &Arc<Account> {
        self.gauge.account()
    }

    /// Moves the objects to another part of the account.
    pub fn move_to(&mut self, part: Part) {
        self.gauge.move_to(part);
    }

    /// Notes what the nodes take now. Call it with them locked.
    pub fn note_nodes(&self, bytes: usize) {
        let mut memory = self.memory.lock();
        self.gauge.change(memory.nodes, bytes);
        memory.nodes = bytes;
    }

    /// Notes that some namespaces that took `before` take `after` now.
    pub fn change(&self, before: MemoryUse, after: MemoryUse) {
        self.gauge.change(before.total(), after.total());
        let mut memory = self.memory.lock();
        *memory += after;
        *memory -= before;
    }

    /// Returns what they take in all, without views and partitions.
    pub fn bytes(&self) -> usize {
        self.gauge.bytes()
    }

    /// As [`Self::bytes`], by part.
    pub fn memory(&self) -> MemoryUse {
        *self.memory.lock()
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
