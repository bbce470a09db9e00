//! Numbers of pods by node, in a table that copies share.

use super::hash_trie::HashTrie;
use super::slots::Slot;

/// The number of pods on each node where there is one.
#[derive(Debug, Clone, Default)]
pub struct SlotCounts(HashTrie<(Slot, u32)>);

/// Spreads the numbers of slots, which are small and consecutive, over all bits.
fn hash((slot, _): &(Slot, u32)) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (slot.index() as u64 + 1).wrapping_mul(FACTOR)
}

fn is_of(slot: Slot) -> impl Fn(&(Slot, u32)) -> bool {
    move |(other, _)| *other == slot
}

impl SlotCounts {
    /// Returns the number of pods on a node.
    pub fn get(&self, slot: Slot) -> u32 {
        let found = self.0.find(hash(&(slot, 0)), is_of(slot));
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
        let place = hash(&(slot, 0));
        match self.0.find_mut(place, is_of(slot)) {
            Some((_, pods)) => *pods += 1,
            None => self.0.insert(place, (slot, 1), hash),
        }
    }

    /// Counts one pod less, which was counted.
    pub fn remove(&mut self, slot: Slot) {
        let place = hash(&(slot, 0));
        let found = self.0.find_mut(place, is_of(slot));
        let (_, pods) = found.expect("what goes was counted");
        *pods -= 1;
        if *pods == 0 {
            self.0.remove(place, is_of(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn numbers_are_those_of_what_came_and_did_not_go() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut counts, mut wanted) = (SlotCounts::default(), HashMap::new());
        for round in 0..20_000 {
            let slot = Slot::at(random.usize(..if round < 10_000 { 3_000 } else { 30 }));
            let known: &mut u32 = wanted.entry(slot).or_default();
            if round < 10_000 || random.bool() {
                *known += 1;
                counts.add(slot);
            } else if *known > 0 {
                *known -= 1;
                counts.remove(slot);
            }
            assert_eq!(counts.get(slot), *known);
        }
        wanted.retain(|_, pods| *pods > 0);
        let copy = counts.clone();
        for slot in wanted.keys() {
            while counts.get(*slot) > 0 {
                counts.remove(*slot);
            }
        }
        assert_eq!((counts.len(), counts.iter().count()), (0, 0));
        assert_eq!(copy.iter().collect::<HashMap<_, _>>(), wanted);
        assert!(wanted.iter().all(|(slot, pods)| copy.get(*slot) == *pods));
    }
}
