//! What a state takes in memory, kept as changes happen: so it is known
//! without a look at what there is, and is on the account of the process.

use std::ops::AddAssign;
use std::sync::Arc;

use super::namespace::Namespace;
use super::shards::{Shard, Shared, State};
use crate::account::{Account, Gauge, Part, heap};
use crate::snapshot::history::named::Snapshot;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::nodes::Nodes;

/// What a snapshot takes in memory, by part: an estimate, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Nodes with their labels and taints.
    pub nodes: usize,
    /// Topologies and partitions, with what tells them apart.
    pub partitions: usize,
    /// Namespaces without what is in them, and what every snapshot has.
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

impl Memory {
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

impl AddAssign for Memory {
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

/// What is kept of memory beside what a look at everything says.
#[derive(Debug)]
pub struct Measured {
    /// The namespace; empty for what all namespaces share.
    pub namespace: Box<str>,
    /// What is kept.
    pub kept: Memory,
    /// What was measured anew.
    pub measured: Memory,
}

/// The objects of a state on the account. Views and partitions are kept by
/// [`Upkeep`](crate::snapshot::counts::upkeep::Upkeep).
#[derive(Debug)]
pub(in crate::snapshot) struct Footprint {
    nodes: Gauge,
    namespaces: Gauge,
    pods: Gauge,
    label_sets: Gauge,
    templates: Gauge,
    owners: Gauge,
}

impl Footprint {
    /// Of an empty state.
    pub fn new(account: &Arc<Account>, part: Part) -> Self {
        let gauge = || account.gauge(part);
        let footprint = Self {
            nodes: gauge(),
            namespaces: gauge(),
            pods: gauge(),
            label_sets: gauge(),
            templates: gauge(),
            owners: gauge(),
        };
        footprint.namespaces.set(state_bytes());
        footprint
    }

    /// The account that it is on.
    pub fn account(&self) -> &Arc<Account> {
        self.nodes.account()
    }

    /// Has the objects stand for another part.
    pub fn move_to(&mut self, part: Part) {
        let Self {
            nodes,
            namespaces,
            pods,
            label_sets,
            templates,
            owners,
        } = self;
        for gauge in [nodes, namespaces, pods, label_sets, templates, owners] {
            gauge.move_to(part);
        }
    }

    /// Notes what the nodes take now. For whoever may change them.
    pub fn note_nodes(&self, bytes: usize) {
        self.nodes.set(bytes);
    }

    /// Notes that some namespaces that took `before` take `after` now.
    pub fn change(&self, before: Memory, after: Memory) {
        self.namespaces.change(before.namespaces, after.namespaces);
        self.pods.change(before.pods, after.pods);
        self.label_sets.change(before.label_sets, after.label_sets);
        self.templates.change(before.templates, after.templates);
        self.owners.change(before.owners, after.owners);
    }

    /// What they take, without views and partitions.
    pub fn memory(&self) -> Memory {
        Memory {
            nodes: self.nodes.bytes(),
            namespaces: self.namespaces.bytes(),
            pods: self.pods.bytes(),
            label_sets: self.label_sets.bytes(),
            templates: self.templates.bytes(),
            owners: self.owners.bytes(),
            ..Memory::default()
        }
    }
}

/// What a namespace takes without what is in it.
pub(in crate::snapshot) fn shard_bytes(name: &str) -> usize {
    let entry = heap::entry::<(Box<str>, Arc<Shard>)>();
    heap::block(name.len()) + heap::shared(size_of::<Shard>()) + Namespace::EMPTY_BYTES + entry
}

impl Memory {
    /// What a namespace takes, without its views: nothing when it is empty, for
    /// then it goes.
    pub(in crate::snapshot) fn of(name: &str, namespace: &Namespace) -> Self {
        if namespace.is_empty() {
            return Self::default();
        }
        Self {
            namespaces: shard_bytes(name),
            ..namespace.memory()
        }
    }
}

impl Measured {
    /// Of a namespace, whose name is not known here.
    pub(in crate::snapshot) fn of(namespace: &Namespace) -> Self {
        let views = namespace.views().read();
        Self {
            namespace: Box::default(),
            kept: Memory {
                views: views.memory_bytes(),
                ..namespace.memory()
            },
            measured: Memory {
                views: views.measured_bytes(),
                ..namespace.measured()
            },
        }
    }
}

impl State {
    /// Nodes and partitions, for whoever has locked them.
    pub(in crate::snapshot) fn measure_shared(&self, shared: &Shared) -> Measured {
        let lenses = shared.nodes.lenses();
        Measured {
            namespace: Box::default(),
            kept: Memory {
                partitions: lenses.memory_bytes(),
                ..self.footprint.memory()
            },
            measured: Memory {
                nodes: shared.nodes.measured_bytes(),
                partitions: lenses.measured_bytes(),
                namespaces: state_bytes(),
                ..Memory::default()
            },
        }
    }
}

impl AddAssign<&Measured> for Measured {
    /// Adds a namespace to the totals.
    fn add_assign(&mut self, namespace: &Measured) {
        self.measured += Memory {
            namespaces: shard_bytes(&namespace.namespace),
            // Whoever decides may keep views meanwhile.
            views: 0,
            ..namespace.measured
        };
    }
}

/// What a state takes that holds nothing.
pub(in crate::snapshot) fn state_bytes() -> usize {
    // The map of namespaces is in parts, four for each processor, each with a
    // lock on cache lines of its own.
    const MAP_PART: usize = 128;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let map = (4 * processors).next_power_of_two() * MAP_PART;
    // Its epoch, its name where it is looked for, and who waits for it.
    const NAMES: usize = 512;
    let snapshot = heap::shared(size_of::<Snapshot>()) + NAMES;
    let shared = heap::shared(size_of::<Nodes>()) + heap::shared(size_of::<Defaults>());
    heap::shared(size_of::<State>()) + heap::block(map) + shared + snapshot
}
