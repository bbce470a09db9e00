//! A large table by name: the pods of a namespace, or the namespaces.
//!
//! Entries are in order of their names, in leaves that copies share; a change copies one leaf and its
//! group of leaves, unless they are not shared. Pods of one workload have similar names, so a batch of
//! them copies few leaves. A leaf has its names in one text: that takes half the memory of names by
//! themselves, and a copy of it costs no more than its bytes.

use std::cmp::Ordering;
use std::sync::Arc;

/// The most entries of a leaf, and the most leaves of a group.
const MAX: usize = 64;

/// The entries for which a leaf gets room when it is full.
const SPARE: usize = 4;

/// Entries by name. Copies share what does not change.
#[derive(Debug, Clone)]
pub struct NameTable<T> {
    /// Groups of leaves. None of them and none of their leaves is empty.
    groups: Node<Arc<Group<T>>>,
    len: usize,
}

/// Leaves, each by a name that is above all names before the leaf, and not above those in it.
type Group<T> = Node<Arc<Node<T>>>;

/// Entries in order of their names.
#[derive(Debug, Clone)]
struct Node<E> {
    /// All names, one after the other.
    names: String,
    /// The end of each name.
    ends: Vec<u32>,
    entries: Vec<E>,
}

/// The place of a name, until the table changes: where its entry is, or would be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    group: usize,
    leaf: usize,
    entry: usize,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self {
            groups: Node::default(),
            len: 0,
        }
    }
}

impl<T> NameTable<T> {
    /// Returns the place of the entry of a name; otherwise, as an error, where it would be.
    pub fn find(&self, name: &str) -> Result<Place, Place> {
        let group = self.groups.at_or_before(name);
        let Some(leaves) = self.groups.entries.get(group) else {
            return Err(Place::default());
        };
        let leaf = leaves.at_or_before(name);
        let place = |entry| Place { group, leaf, entry };
        let found = leaves.entries[leaf].find(name);
        found.map(place).map_err(place)
    }

    /// An entry by name.
    pub fn get(&self, name: &str) -> Option<&T> {
        Some(self.at(self.find(name).ok()?))
    }

    /// The entry at a place.
    pub fn at(&self, Place { group, leaf, entry }: Place) -> &T {
        &self.groups.entries[group].entries[leaf].entries[entry]
    }

    /// All entries, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        let groups = self.groups.entries.iter();
        let leaves = groups.flat_map(|group| &group.entries);
        leaves.flat_map(|leaf| {
            let names = (0..leaf.entries.len()).map(|at| leaf.name(at));
            names.zip(&leaf.entries)
        })
    }

    /// The names, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Clone> NameTable<T> {
    fn group_mut(&mut self, place: Place) -> &mut Group<T> {
        Arc::make_mut(&mut self.groups.entries[place.group])
    }

    fn leaf_mut(&mut self, place: Place) -> &mut Node<T> {
        Arc::make_mut(&mut self.group_mut(place).entries[place.leaf])
    }

    /// An entry by name, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let place = self.find(name).ok()?;
        Some(&mut self.leaf_mut(place).entries[place.entry])
    }

    /// Adds an entry, or replaces the one of its name.
    pub fn put(&mut self, name: &str, entry: T) {
        self.put_at(self.find(name), name, entry);
    }

    /// As [`Self::put`], where the place of the name was found.
    pub fn put_at(&mut self, found: Result<Place, Place>, name: &str, entry: T) {
        match found {
            Ok(place) => self.leaf_mut(place).entries[place.entry] = entry,
            Err(place) => self.insert(place, name, entry),
        }
    }

    fn insert(&mut self, mut place: Place, name: &str, entry: T) {
        self.len += 1;
        if self.groups.entries.is_empty() {
            let mut group = Group::default();
            group.insert(0, name, Arc::default());
            self.groups.insert(0, name, Arc::new(group));
        }
        if self.leaf_mut(place).entries.len() == MAX {
            place = self.split(place, name);
        }
        self.leaf_mut(place).insert(place.entry, name, entry);
    }

    /// Splits a full leaf for another name, and a full group for the leaf. Returns the place of the
    /// name.
    fn split(&mut self, mut place: Place, name: &str) -> Place {
        if self.group_mut(place).entries.len() == MAX {
            let rest = self.group_mut(place).split_off(MAX / 2);
            let first = rest.name(0).to_owned();
            self.groups.insert(place.group + 1, &first, Arc::new(rest));
            if place.leaf >= MAX / 2 {
                place.group += 1;
                place.leaf -= MAX / 2;
            }
        }
        // Many names arrive in their order: then full leaves stay full.
        let is_last = place.entry == MAX;
        let at = if is_last { MAX } else { MAX / 2 };
        let rest = self.leaf_mut(place).split_off(at);
        let first = if is_last { name } else { rest.name(0) };
        let first = first.to_owned();
        let group = self.group_mut(place);
        group.insert(place.leaf + 1, &first, Arc::new(rest));
        if *name >= *first {
            place.leaf += 1;
            place.entry -= at;
        }
        place
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.find(name).ok().map(|place| self.remove_at(place))
    }

    /// Removes the entry at a place.
    pub fn remove_at(&mut self, place: Place) -> T {
        self.len -= 1;
        let removed = self.leaf_mut(place).remove(place.entry);
        let group = self.group_mut(place);
        group.merge(place.leaf);
        self.groups.merge(place.group);
        removed
    }
}

impl<E> Default for Node<E> {
    fn default() -> Self {
        Self {
            names: String::new(),
            ends: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl<E> Node<E> {
    fn start(&self, at: usize) -> usize {
        match at {
            0 => 0,
            _ => self.ends[at - 1] as usize,
        }
    }

    fn name(&self, at: usize) -> &str {
        &self.names[self.start(at)..self.ends[at] as usize]
    }

    /// Returns the index of the entry of a name; otherwise, as an error, the one that it would have.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.find_from(0, name)
    }

    fn find_from(&self, mut from: usize, name: &str) -> Result<usize, usize> {
        let mut to = self.entries.len();
        while from < to {
            let middle = (from + to) / 2;
            match self.name(middle).cmp(name) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// The index of the last entry whose name is not above this one. The first entry has all names
    /// before those of the others, whatever its own.
    fn at_or_before(&self, name: &str) -> usize {
        self.find_from(1, name).unwrap_or_else(|at| at - 1)
    }

    fn insert(&mut self, at: usize, name: &str, entry: E) {
        let start = self.start(at);
        if self.entries.len() == self.entries.capacity() {
            // More at once would often stay unused, and less would copy the leaf too often.
            self.names.reserve_exact(SPARE * name.len());
            self.ends.reserve_exact(SPARE);
            self.entries.reserve_exact(SPARE);
        }
        self.names.insert_str(start, name);
        self.ends.insert(at, start as u32);
        self.entries.insert(at, entry);
        let ends = &mut self.ends[at..];
        ends.iter_mut().for_each(|end| *end += name.len() as u32);
    }

    fn remove(&mut self, at: usize) -> E {
        let (start, end) = (self.start(at), self.ends.remove(at));
        let length = end - start as u32;
        self.names.replace_range(start..end as usize, "");
        let ends = &mut self.ends[at..];
        ends.iter_mut().for_each(|end| *end -= length);
        self.entries.remove(at)
    }

    /// Takes the entries from an index on away.
    fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let rest = Self {
            names: self.names.split_off(start),
            ends: self.ends.split_off(at),
            entries: self.entries.split_off(at),
        };
        self.names.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.entries.shrink_to_fit();
        let from_start = |end: u32| end - start as u32;
        Self {
            ends: rest.ends.into_iter().map(from_start).collect(),
            ..rest
        }
    }
}

impl<E: Clone> Node<Arc<Node<E>>> {
    /// Removes an empty node, or merges a small one with a neighbour.
    fn merge(&mut self, at: usize) {
        if self.entries[at].entries.is_empty() {
            // The first name stays: the names between it and the next one belong here.
            let gone = if at == 0 && self.entries.len() > 1 {
                1
            } else {
                at
            };
            self.entries.swap(at, gone);
            self.remove(gone);
            return;
        }
        let is_small = |pair: &[Arc<Node<E>>]| {
            let len: usize = pair.iter().map(|node| node.entries.len()).sum();
            len <= MAX / 2
        };
        let mut pairs = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let first = pairs.find(|first| self.entries.get(*first..first + 2).is_some_and(is_small));
        if let Some(first) = first {
            let next = self.remove(first + 1);
            Arc::make_mut(&mut self.entries[first]).append(&next);
        }
    }
}

impl<E: Clone> Node<E> {
    /// Adds the entries of the next node.
    fn append(&mut self, next: &Self) {
        let start = self.names.len() as u32;
        self.names.push_str(&next.names);
        self.ends.extend(next.ends.iter().map(|end| start + end));
        self.entries.extend_from_slice(&next.entries);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_table_has_what_was_put_and_a_copy_stays_as_it_was() {
        let (mut table, mut wanted) = (NameTable::default(), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(7);
        let names: Vec<String> = (0..30_000).map(|i| format!("{}é-{i}", i % 7)).collect();
        for size in [10, 20_000, 2_000, 5_000, 0, 100] {
            let (copy, before) = (table.clone(), wanted.clone());
            while wanted.len() != size {
                let name = random.choice(&names).expect("some");
                let value = random.u32(..);
                if wanted.len() < size {
                    table.put(name, value);
                    wanted.insert(name.clone(), value);
                } else {
                    assert_eq!(table.remove(name), wanted.remove(name));
                }
                if let Some(value) = table.get_mut(name) {
                    *value /= 2;
                    *wanted.get_mut(name).expect("it is in both") /= 2;
                }
            }
            for (table, wanted) in [(&table, &wanted), (&copy, &before)] {
                assert_eq!(table.len(), wanted.len());
                let all = wanted.iter().map(|(name, value)| (&**name, value));
                assert!(table.iter().eq(all));
                assert!(names.iter().all(|name| table.get(name) == wanted.get(name)));
            }
            let leaves: usize = table.groups.entries.iter().map(|it| it.entries.len()).sum();
            assert!(leaves <= 1 + size / (MAX / 8), "{leaves} leaves of {size}");
        }
    }

    #[test]
    fn leaves_of_names_that_arrive_in_their_order_are_full() {
        let mut table = NameTable::default();
        (0..64_000).for_each(|i| table.put(&format!("{i:05}"), ()));
        let leaves: usize = table.groups.entries.iter().map(|it| it.entries.len()).sum();
        assert_eq!(leaves, 1_000);
    }
}
