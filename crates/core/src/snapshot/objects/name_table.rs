//! A large table by name: the pods of a namespace, or the namespaces.
//!
//! Entries are in order of their names, in leaves that copies share; a change copies one leaf and the
//! references of its group, unless they are not shared. Pods of one workload have similar names, so a
//! batch of them copies few leaves. A leaf has its names in one text: that takes half the memory of
//! names by themselves, and a copy of it costs no more than its bytes.

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
    groups: Vec<Arc<Group<T>>>,
    len: usize,
}

type Group<T> = Vec<Arc<Leaf<T>>>;

#[derive(Debug, Clone)]
struct Leaf<T> {
    /// All names, one after the other.
    names: String,
    /// The end of each name.
    ends: Vec<u32>,
    entries: Vec<T>,
}

/// The place of a name: where its entry is, or would be.
#[derive(Debug, Clone, Copy)]
struct Place {
    group: usize,
    leaf: usize,
    entry: usize,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            len: 0,
        }
    }
}

impl<T> NameTable<T> {
    /// Returns the place of the entry of a name; otherwise, as an error, where it would be.
    fn find(&self, name: &str) -> Result<Place, Place> {
        let is_after = |leaf: &Leaf<T>| leaf.name(0) > name;
        let group = self.groups.partition_point(|it| !is_after(&it[0]));
        let group = group.saturating_sub(1);
        let leaves = self.groups.get(group).map_or(&[][..], |it| it);
        let leaf = leaves.partition_point(|it| !is_after(it)).saturating_sub(1);
        let found = leaves.get(leaf).map_or(Err(0), |it| it.find(name));
        let place = |entry| Place { group, leaf, entry };
        found.map(place).map_err(place)
    }

    /// An entry by name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let Place { group, leaf, entry } = self.find(name).ok()?;
        Some(&self.groups[group][leaf].entries[entry])
    }

    /// All entries, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        let leaves = self.groups.iter().flat_map(|group| group.iter());
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
    fn leaf_mut(&mut self, place: Place) -> &mut Leaf<T> {
        let group = Arc::make_mut(&mut self.groups[place.group]);
        Arc::make_mut(&mut group[place.leaf])
    }

    /// An entry by name, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let place = self.find(name).ok()?;
        Some(&mut self.leaf_mut(place).entries[place.entry])
    }

    /// Adds an entry, or replaces the one of its name.
    pub fn put(&mut self, name: &str, entry: T) {
        match self.find(name) {
            Ok(place) => self.leaf_mut(place).entries[place.entry] = entry,
            Err(place) => self.insert(place, name, entry),
        }
    }

    fn insert(&mut self, mut place: Place, name: &str, entry: T) {
        self.len += 1;
        if self.groups.is_empty() {
            self.groups.push(Arc::new(vec![Arc::default()]));
        }
        if self.leaf_mut(place).entries.len() == MAX {
            place = self.split(place);
        }
        self.leaf_mut(place).insert(place.entry, name, entry);
    }

    /// Splits a full leaf for another entry, and a full group for the leaf. Returns the place of the
    /// entry.
    fn split(&mut self, mut place: Place) -> Place {
        if self.groups[place.group].len() == MAX {
            let rest = Arc::make_mut(&mut self.groups[place.group]).split_off(MAX / 2);
            self.groups.insert(place.group + 1, Arc::new(rest));
            if place.leaf >= MAX / 2 {
                place.group += 1;
                place.leaf -= MAX / 2;
            }
        }
        // Many names arrive in their order: then full leaves stay full.
        let at = match place.entry {
            MAX => MAX,
            _ => MAX / 2,
        };
        let rest = self.leaf_mut(place).split_off(at);
        let group = Arc::make_mut(&mut self.groups[place.group]);
        group.insert(place.leaf + 1, Arc::new(rest));
        if place.entry >= at {
            place.leaf += 1;
            place.entry -= at;
        }
        place
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        let place = self.find(name).ok()?;
        self.len -= 1;
        let removed = self.leaf_mut(place).remove(place.entry);
        self.merge(place);
        Some(removed)
    }

    /// Merges a leaf with a neighbour, and its group with a neighbour, where they have become small.
    fn merge(&mut self, place: Place) {
        let leaves = Arc::make_mut(&mut self.groups[place.group]);
        let len = |leaf: &Leaf<T>| leaf.entries.len();
        if len(&leaves[place.leaf]) == 0 {
            leaves.remove(place.leaf);
        } else if let Some(first) = small_pair(leaves, len, place.leaf) {
            let next = leaves.remove(first + 1);
            Arc::make_mut(&mut leaves[first]).append(&next);
        }
        if leaves.is_empty() {
            self.groups.remove(place.group);
        } else if let Some(first) = small_pair(&self.groups, Vec::len, place.group) {
            let next = self.groups.remove(first + 1);
            Arc::make_mut(&mut self.groups[first]).extend(next.iter().cloned());
        }
    }
}

/// The first of two neighbours that are better one, where one of them is at an index.
fn small_pair<L>(all: &[Arc<L>], len: impl Fn(&L) -> usize, at: usize) -> Option<usize> {
    let is_small = |pair: &[Arc<L>]| len(&pair[0]) + len(&pair[1]) <= MAX / 2;
    let mut pairs = [at.checked_sub(1), Some(at)].into_iter().flatten();
    pairs.find(|first| all.get(*first..first + 2).is_some_and(is_small))
}

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Self {
            names: String::new(),
            ends: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl<T> Leaf<T> {
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
        let (mut from, mut to) = (0, self.entries.len());
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

    fn insert(&mut self, at: usize, name: &str, entry: T) {
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
        self.ends[at..]
            .iter_mut()
            .for_each(|end| *end += name.len() as u32);
    }

    fn remove(&mut self, at: usize) -> T {
        let (start, end) = (self.start(at), self.ends.remove(at));
        let length = end - start as u32;
        self.names.replace_range(start..end as usize, "");
        self.ends[at..].iter_mut().for_each(|end| *end -= length);
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

impl<T: Clone> Leaf<T> {
    /// Adds the entries of the next leaf.
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
            let leaves: usize = table.groups.iter().map(|group| group.len()).sum();
            assert!(leaves <= 1 + size / (MAX / 8), "{leaves} leaves of {size}");
        }
    }

    #[test]
    fn leaves_of_names_that_arrive_in_their_order_are_full() {
        let mut table = NameTable::default();
        (0..64_000).for_each(|i| table.put(&format!("{i:05}"), ()));
        let leaves: usize = table.groups.iter().map(|group| group.len()).sum();
        assert_eq!(leaves, 1_000);
    }
}
