//! A table that keeps each distinct entry once and names it by a number.

use hashbrown::DefaultHashBuilder;

use super::blocks::Blocks;
use super::hash_trie::HashTrie;

/// The number of free numbers that is never too many.
const MIN_FREE: usize = 256;

/// Entries by number, found by a hash of their content. A change of an entry copies `BLOCK`
/// entries.
///
/// Numbers are reused. The last entry is always in use.
#[derive(Debug, Clone, Default)]
pub struct Interner<E, const BLOCK: usize> {
    by_hash: HashTrie<u32>,
    entries: Blocks<E, BLOCK>,
    /// Numbers to give out again. Some may be past the end of `entries`.
    free: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl<E, const BLOCK: usize> Interner<E, BLOCK> {
    /// Returns the hasher by which entries are found.
    pub fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    /// The number of the entry with this hash for which `same` returns true.
    pub fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        self.by_hash.find(hash, |number| same(*number)).copied()
    }

    /// An entry by number.
    pub fn get(&self, number: u32) -> &E {
        &self.entries[number as usize]
    }

    /// The entries with their numbers, in order; unused ones too.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &E)> {
        (0..).zip(self.entries.iter())
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.by_hash.len()
    }

    /// One more than the largest number in use.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }
}

impl<E: Clone + Default, const BLOCK: usize> Interner<E, BLOCK> {
    /// An entry by number, to change it.
    pub fn get_mut(&mut self, number: u32) -> &mut E {
        self.entries.get_mut(number as usize)
    }

    /// Adds a new entry and returns its number. `hash_of` computes the hash of
    /// an entry.
    pub fn insert(&mut self, entry: E, hash_of: impl Fn(&DefaultHashBuilder, &E) -> u64) -> u32 {
        let hash = hash_of(&self.hasher, &entry);
        let number = match self.pop_free() {
            Some(number) => {
                *self.entries.get_mut(number as usize) = entry;
                number
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 entries")
            }
        };
        let Self {
            by_hash,
            entries,
            hasher,
            ..
        } = self;
        by_hash.insert(hash, number, |number| {
            hash_of(hasher, &entries[*number as usize])
        });
        number
    }

    /// Removes an entry and frees its number.
    pub fn remove(
        &mut self,
        number: u32,
        is_used: impl Fn(&E) -> bool,
        hash_of: impl Fn(&DefaultHashBuilder, &E) -> u64,
    ) -> E {
        let hash = hash_of(&self.hasher, self.get(number));
        let removed = self.by_hash.remove(hash, |other| *other == number);
        debug_assert!(removed.is_some(), "an entry in use is in the table");
        let entry = std::mem::take(self.get_mut(number));
        self.free.push(number);
        self.trim(is_used);
        entry
    }

    /// A number to give out again. As long as `free` has one, `entries` does not grow, so a number
    /// past the end never comes back into use.
    fn pop_free(&mut self) -> Option<u32> {
        let len = self.entries.len();
        std::iter::from_fn(|| self.free.pop()).find(|number| (*number as usize) < len)
    }

    /// Drops unused entries at the end, and their numbers once most of the free ones are of these.
    fn trim(&mut self, is_used: impl Fn(&E) -> bool) {
        while self.entries.last().is_some_and(|entry| !is_used(entry)) {
            self.entries.pop();
        }
        let len = self.entries.len();
        if self.free.len() > MIN_FREE && self.free.len() > 8 * len {
            self.entries.shrink();
            self.free.retain(|number| (*number as usize) < len);
            self.free.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    type Texts = Interner<Option<u32>, 4>;

    fn hash_of(hasher: &DefaultHashBuilder, entry: &Option<u32>) -> u64 {
        hasher.hash_one(entry)
    }

    fn insert(texts: &mut Texts, value: u32) -> u32 {
        texts.insert(Some(value), hash_of)
    }

    fn remove(texts: &mut Texts, number: u32) {
        texts.remove(number, Option::is_some, hash_of);
    }

    fn find(texts: &Texts, value: u32) -> Option<u32> {
        let same = |number| *texts.get(number) == Some(value);
        texts.find(hash_of(texts.hasher(), &Some(value)), same)
    }

    #[test]
    fn what_is_left_is_found_by_its_number_whatever_goes() {
        let mut texts = Texts::default();
        let numbers: Vec<u32> = (0..2_000).map(|value| insert(&mut texts, value)).collect();
        let copy = texts.clone();
        // Removes from the middle, from the end, and then nearly all.
        for value in (500..600).chain(1_900..2_000).chain(10..500) {
            remove(&mut texts, numbers[value]);
        }
        for number in &numbers[600..1_900] {
            remove(&mut texts, *number);
        }
        assert_eq!((texts.count(), texts.bound()), (10, 10));
        for value in 0..2_000 {
            let there = (value < 10).then_some(numbers[value as usize]);
            assert_eq!(find(&texts, value), there, "{value}");
            assert_eq!(find(&copy, value), Some(numbers[value as usize]));
        }
        let again: Vec<u32> = (5_000..5_100).map(|v| insert(&mut texts, v)).collect();
        assert_eq!((texts.count(), texts.bound()), (110, 110));
        for (value, number) in (5_000..).zip(again) {
            assert_eq!(find(&texts, value), Some(number));
        }
    }
}
