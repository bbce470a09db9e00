//! Node order: the nodes that exist, ascending by name.

use super::slots::Slot;
use crate::account::heap;

/// Up to how many new nodes are inserted one by one.
const MAX_INSERTIONS: usize = 64;

/// The slots of the nodes that exist, ascending by name, once it is settled.
#[derive(Debug, Clone, Default)]
pub(in crate::snapshot) struct NodeOrder {
    slots: Vec<Slot>,
    /// Nodes that are not in `slots` yet.
    added: Vec<Slot>,
    /// Whether `slots` has deleted nodes.
    removed: bool,
}

impl NodeOrder {
    /// Notes a node that is new.
    pub fn add(&mut self, slot: Slot) {
        self.added.push(slot);
    }

    /// Notes that a node was deleted.
    pub fn remove(&mut self) {
        self.removed = true;
    }

    /// Restores the order after a run of changes.
    pub fn settle<'n>(&mut self, exists: impl Fn(Slot) -> bool, name: impl Fn(Slot) -> &'n str) {
        let Self {
            slots,
            added,
            removed,
        } = self;
        if std::mem::take(removed) {
            slots.retain(|slot| exists(*slot));
        }
        added.retain(|slot| exists(*slot));
        let name = |slot: &Slot| name(*slot);
        if added.len() <= MAX_INSERTIONS {
            for slot in added.drain(..) {
                if let Err(at) = slots.binary_search_by_key(&name(&slot), name) {
                    slots.insert(at, slot);
                }
            }
        } else {
            slots.append(added);
            // A stable sort is linear in what is already sorted.
            slots.sort_by_key(name);
            slots.dedup();
        }
    }

    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        heap::list::<Slot>(self.slots.capacity()) + heap::list::<Slot>(self.added.capacity())
    }

    /// The slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }
}
