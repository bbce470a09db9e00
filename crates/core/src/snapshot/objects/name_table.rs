//! A large table by name: the pods of a namespace, or the namespaces.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::hash_trie::{HashTrie, Hashed};

/// Entries by name. Copies share what does not change.
#[derive(Debug, Clone)]
pub struct NameTable<T> {
    entries: HashTrie<NamedEntry<T>>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone)]
struct NamedEntry<T> {
    /// The hash of the name: most names that differ need not be read.
    hash: u64,
    name: Arc<str>,
    entry: T,
}

impl<T: Clone> Hashed for NamedEntry<T> {
    fn hash(&self) -> u64 {
        self.hash
    }
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self {
            entries: HashTrie::default(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

fn is_named<T>(name: &str, hash: u64) -> impl Fn(&NamedEntry<T>) -> bool {
    move |other| other.hash == hash && *other.name == *name
}

impl<T> NameTable<T> {
    /// An entry by name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let hash = self.hasher.hash_one(name);
        let found = self.entries.find(hash, is_named(name, hash));
        found.map(|named| &named.entry)
    }

    /// All entries with their names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &T)> {
        self.entries.iter().map(|named| (&named.name, &named.entry))
    }

    /// The names, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> = self.iter().map(|(name, _)| &**name).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> NameTable<T> {
    /// An entry by name, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let hash = self.hasher.hash_one(name);
        let found = self.entries.find_mut(hash, is_named(name, hash));
        found.map(|named| &mut named.entry)
    }

    /// Adds an entry, or replaces the one of its name.
    pub fn put(&mut self, name: &str, entry: T) {
        let hash = self.hasher.hash_one(name);
        match self.entries.find_mut(hash, is_named(name, hash)) {
            Some(named) => named.entry = entry,
            None => self.entries.insert(NamedEntry {
                hash,
                name: name.into(),
                entry,
            }),
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.get(name)?;
        let hash = self.hasher.hash_one(name);
        let removed = self.entries.remove(hash, is_named(name, hash))?;
        Some(removed.entry)
    }
}
