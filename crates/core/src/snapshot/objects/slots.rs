//! The numbers of node names. Pods may name a node that does not exist yet, so there may be a
//! number for a name without a node. Numbers of pods by node are in tables that copies share.

use std::num::NonZeroU32;
use std::sync::Arc;

use hashbrown::HashMap;

use super::hash_trie::{HashTrie, Hashed};

/// The number of a node, whether it exists or is only named by pods. It is reused once nothing
/// names the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(NonZeroU32);

impl Slot {
    /// Returns the slot as an index into an array with one element per slot.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The slot of an index. It counts from 1 inside, so that an `Option` of it
    /// takes no more room.
    pub(in crate::snapshot) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 nodes"))
    }
}

/// The slots of all names in use. `requested.rs` counts the pods that name each node, together with
/// their requests, so a decision that only imagines pods shares these slots.
#[derive(Debug, Clone, Default)]
pub(in crate::snapshot) struct Slots {
    /// By slot; empty where it is free. Shared by copies.
    names: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, Slot>,
    free: Vec<Slot>,
}

impl Slots {
    /// The slot of a name that is in use.
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied()
    }

    /// The slot of a name, given out if needed.
    pub fn reserve(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.names.push(Arc::default());
            Slot::at(self.names.len() - 1)
        });
        let name: Arc<str> = name.into();
        self.names[slot.index()] = Arc::clone(&name);
        self.by_name.insert(name, slot);
        slot
    }

    /// Frees the slots whose names are not in use.
    pub fn retain(&mut self, is_used: impl Fn(Slot) -> bool) {
        let Self {
            names,
            by_name,
            free,
        } = self;
        by_name.retain(|_, slot| {
            let is_used = is_used(*slot);
            if !is_used {
                names[slot.index()] = Arc::default();
                free.push(*slot);
            }
            is_used
        });
    }

    /// Returns the number of names in use.
    pub fn in_use(&self) -> usize {
        self.by_name.len()
    }

    /// The name of a slot.
    pub fn name(&self, slot: Slot) -> &str {
        &self.names[slot.index()]
    }

    /// One more than the largest slot's index.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}

/// The number of pods on each node where there is one.
#[derive(Debug, Clone, Default)]
pub struct SlotCounts(HashTrie<(Slot, u32)>);

impl Hashed for (Slot, u32) {
    fn hash(&self) -> u32 {
        hash(self.0)
    }
}

/// Spreads the numbers of slots, which are small and consecutive, over all bits.
fn hash(slot: Slot) -> u32 {
    const FACTOR: u32 = 0x9e37_79b9;
    (slot.index() as u32 + 1).wrapping_mul(FACTOR)
}

fn is_of(slot: Slot) -> impl Fn(&(Slot, u32)) -> bool {
    move |(other, _)| *other == slot
}

impl SlotCounts {
    /// Returns the number of pods on a node.
    pub fn get(&self, slot: Slot) -> u32 {
        let found = self.0.find(hash(slot), is_of(slot));
        found.map_or(0, |(_, pods)| *pods)
    }

    /// Returns the number of nodes with pods.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The nodes with pods, and their numbers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.0.iter().copied()
    }

    /// Counts one pod more.
    pub fn add(&mut self, slot: Slot) {
        match self.0.find_mut(hash(slot), is_of(slot)) {
            Some((_, pods)) => *pods += 1,
            None => self.0.insert((slot, 1)),
        }
    }

    /// Counts one pod less, which was counted.
    pub fn remove(&mut self, slot: Slot) {
        let found = self.0.find_mut(hash(slot), is_of(slot));
        let (_, pods) = found.expect("what goes was counted");
        *pods -= 1;
        if *pods == 0 {
            self.0.remove(hash(slot), is_of(slot));
        }
    }
}
