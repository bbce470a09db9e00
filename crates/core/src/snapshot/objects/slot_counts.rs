//! Numbers of pods by node, in a table that copies share.

use super::hash_trie::{HashTrie, Hashed};
use super::slots::Slot;

/// The number of pods on each node where there is one.
#[derive(Debug, Clone, Default)]
pub struct SlotCounts(HashTrie<(Slot, u32)>);

impl Hashed for (Slot, u32) {
    fn hash(&self) -> u64 {
        hash(self.0)
    }
}

/// Spreads the numbers of slots, which are small and consecutive, over all bits.
fn hash(slot: Slot) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (slot.index() as u64 + 1).wrapping_mul(FACTOR)
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
