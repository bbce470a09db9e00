//! What a state takes in memory, updated as changes happen. So it is known
//! without looking at the objects, and is on the account of the process.

use std::sync::Arc;

use super::memory::MemoryUse;
use crate::account::{Account, Gauge, Part};

/// The objects of a state on the account. Views and partitions are kept by
/// `counts::upkeep`.
#[derive(Debug)]
pub struct Footprint {
    nodes: Gauge,
    namespaces: Gauge,
    pods: Gauge,
    label_sets: Gauge,
    templates: Gauge,
    owners: Gauge,
}

impl Footprint {
    /// For an empty state that takes this many bytes itself.
    pub fn new(account: &Arc<Account>, part: Part, own_bytes: usize) -> Self {
        let gauge = || account.gauge(part);
        let footprint = Self {
            nodes: gauge(),
            namespaces: gauge(),
            pods: gauge(),
            label_sets: gauge(),
            templates: gauge(),
            owners: gauge(),
        };
        footprint.namespaces.set(own_bytes);
        footprint
    }

    /// The account that it is on.
    pub fn account(&self) -> &Arc<Account> {
        self.nodes.account()
    }

    /// Moves the objects to another part of the account.
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

    /// Notes what the nodes take now. Call it with them locked.
    pub fn note_nodes(&self, bytes: usize) {
        self.nodes.set(bytes);
    }

    /// Notes that some namespaces that took `before` take `after` now.
    pub fn change(&self, before: MemoryUse, after: MemoryUse) {
        self.namespaces.change(before.namespaces, after.namespaces);
        self.pods.change(before.pods, after.pods);
        self.label_sets.change(before.label_sets, after.label_sets);
        self.templates.change(before.templates, after.templates);
        self.owners.change(before.owners, after.owners);
    }

    /// What they take, without views and partitions.
    pub fn memory(&self) -> MemoryUse {
        MemoryUse {
            nodes: self.nodes.bytes(),
            namespaces: self.namespaces.bytes(),
            pods: self.pods.bytes(),
            label_sets: self.label_sets.bytes(),
            templates: self.templates.bytes(),
            owners: self.owners.bytes(),
            ..MemoryUse::default()
        }
    }
}
