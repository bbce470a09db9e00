//! A table that keeps each distinct value once, as long as it is used, and names it by a number.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use super::blocks::Blocks;
use super::hash_trie::{HashTrie, Numbered};

/// The number of free numbers that is never too many.
const MIN_FREE: usize = 256;

/// Values by number, found by a hash of their content. A change of a value copies `BLOCK` of them.
///
/// Numbers are reused. The last value is always in use.
#[derive(Debug, Clone)]
pub struct Interner<V, const BLOCK: usize> {
    by_hash: HashTrie<Numbered>,
    entries: Blocks<Option<Interned<V>>, BLOCK>,
    /// Numbers to give out again. Some may be past the end of `entries`.
    free: Vec<u32>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone)]
struct Interned<V> {
    value: V,
    hash: u32,
    uses: u32,
}

impl<V, const BLOCK: usize> Default for Interner<V, BLOCK> {
    fn default() -> Self {
        Self {
            by_hash: HashTrie::default(),
            entries: Blocks::default(),
            free: Vec::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<V, const BLOCK: usize> Interner<V, BLOCK> {
    /// Returns the hash by which a content is found.
    pub fn hash(&self, content: impl Hash) -> u32 {
        self.hasher.hash_one(content) as u32
    }

    /// The number of the value with this hash for which `same` returns true.
    pub fn find(&self, hash: u32, same: impl Fn(&V) -> bool) -> Option<u32> {
        let is_it = |it: &Numbered| it.hash == hash && same(self.get(it.number));
        self.by_hash.find(hash, is_it).map(|it| it.number)
    }

    fn entry(&self, number: u32) -> &Interned<V> {
        let entry = self.entries[number as usize].as_ref();
        entry.expect("the number is in use")
    }

    /// The value of a number that is in use.
    pub fn get(&self, number: u32) -> &V {
        &self.entry(number).value
    }

    /// Returns how often a value is used.
    pub fn uses(&self, number: u32) -> u32 {
        self.entry(number).uses
    }

    /// The values with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &V)> {
        let all = (0..).zip(self.entries.iter());
        all.filter_map(|(number, entry)| Some((number, &entry.as_ref()?.value)))
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.by_hash.len()
    }

    /// One more than the largest number in use.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }
}

impl<V: Clone, const BLOCK: usize> Interner<V, BLOCK> {
    fn entry_mut(&mut self, number: u32) -> &mut Interned<V> {
        let entry = self.entries.get_mut(number as usize).as_mut();
        entry.expect("the number is in use")
    }

    /// The value of a number that is in use, to change what is not hashed.
    pub fn get_mut(&mut self, number: u32) -> &mut V {
        &mut self.entry_mut(number).value
    }

    /// Uses a value once more.
    pub fn use_again(&mut self, number: u32) {
        self.entry_mut(number).uses += 1;
    }

    /// Adds a new value, which is used once, and returns its number.
    pub fn insert(&mut self, hash: u32, value: V) -> u32 {
        let entry = Some(Interned {
            value,
            hash,
            uses: 1,
        });
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
        self.by_hash.insert(Numbered { hash, number });
        number
    }

    /// Gives one use of a value back. Returns the value if that was the last.
    pub fn release(&mut self, number: u32) -> Option<V> {
        let entry = self.entry_mut(number);
        entry.uses -= 1;
        if entry.uses > 0 {
            return None;
        }
        let hash = entry.hash;
        let removed = self.by_hash.remove(hash, |other| other.number == number);
        debug_assert!(removed.is_some(), "a value in use is in the table");
        let entry = self.entries.get_mut(number as usize).take();
        self.free.push(number);
        self.trim();
        entry.map(|entry| entry.value)
    }

    /// A number to give out again. As long as `free` has one, `entries` does not grow, so a number
    /// past the end never comes back into use.
    fn pop_free(&mut self) -> Option<u32> {
        let len = self.entries.len();
        std::iter::from_fn(|| self.free.pop()).find(|number| (*number as usize) < len)
    }

    /// Drops unused entries at the end, and their numbers once most of the free ones are of these.
    fn trim(&mut self) {
        while self.entries.last().is_some_and(Option::is_none) {
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
    use super::*;

    type Numbers = Interner<u32, 4>;

    fn insert(numbers: &mut Numbers, value: u32) -> u32 {
        numbers.insert(numbers.hash(value), value)
    }

    fn find(numbers: &Numbers, value: u32) -> Option<u32> {
        numbers.find(numbers.hash(value), |it| *it == value)
    }

    #[test]
    fn what_is_left_is_found_by_its_number_whatever_goes() {
        let mut texts = Numbers::default();
        let numbers: Vec<u32> = (0..2_000).map(|value| insert(&mut texts, value)).collect();
        texts.use_again(numbers[700]);
        assert_eq!(texts.release(numbers[700]), None, "it is used once more");
        let copy = texts.clone();
        // Removes from the middle, from the end, and then nearly all.
        for value in (500..600).chain(1_900..2_000).chain(10..500) {
            assert_eq!(texts.release(numbers[value]), Some(value as u32));
        }
        for number in &numbers[600..1_900] {
            assert!(texts.release(*number).is_some());
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
