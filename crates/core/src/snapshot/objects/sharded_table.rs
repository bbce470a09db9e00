//! A hash table in shards, which copies share.
//!
//! A change of a table that has a copy copies one shard, and the references to the others in two
//! levels.

use std::sync::Arc;

use hashbrown::HashTable;

/// The average number of entries in a shard above which the number of shards is doubled.
const FULL: usize = 64;

/// The most shards of a group.
const GROUP: usize = 64;

type Shard<T> = Arc<HashTable<T>>;

/// Entries by a hash.
#[derive(Debug, Clone)]
pub struct ShardedTable<T> {
    /// The shards, in groups of equal length. Their number is a power of two; none before the first
    /// entry.
    groups: Vec<Arc<[Shard<T>]>>,
    len: usize,
}

impl<T> Default for ShardedTable<T> {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            len: 0,
        }
    }
}

impl<T> ShardedTable<T> {
    fn with_shards(shards: usize) -> Self {
        let group = |_| (0..shards.min(GROUP)).map(|_| Arc::default()).collect();
        Self {
            groups: (0..shards.div_ceil(GROUP)).map(group).collect(),
            len: 0,
        }
    }

    fn shard_count(&self) -> usize {
        self.groups
            .first()
            .map_or(0, |group| self.groups.len() * group.len())
    }

    /// The group of the shard for a hash, and the number of the shard in the group. The table of a
    /// shard uses the highest and the lowest bits of the same hash.
    fn place(&self, hash: u64) -> (usize, usize) {
        let at = (hash >> 32) as usize & (self.shard_count() - 1);
        (at / GROUP, at % GROUP)
    }

    /// An entry.
    pub fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        if self.len == 0 {
            return None;
        }
        let (group, shard) = self.place(hash);
        self.groups[group][shard].find(hash, is_it)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let shards = self.groups.iter().flat_map(|group| group.iter());
        shards.flat_map(|shard| shard.iter())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl<T: Clone> ShardedTable<T> {
    /// The shard for a hash, to change it.
    fn shard(&mut self, hash: u64) -> &mut HashTable<T> {
        if self.groups.is_empty() {
            *self = Self::with_shards(1);
        }
        let (group, shard) = self.place(hash);
        Arc::make_mut(&mut Arc::make_mut(&mut self.groups[group])[shard])
    }

    /// An entry, to change it.
    pub fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.shard(hash).find_mut(hash, is_it)
    }

    /// Adds an entry that is not there.
    pub fn insert(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        self.add(hash, entry, &hash_of);
        self.len += 1;
        if self.len > FULL * self.shard_count() {
            self.divide(2 * self.shard_count(), &hash_of);
        }
    }

    fn add(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        let shard = self.shard(hash);
        shard.insert_unique(hash, entry, hash_of);
    }

    /// Removes an entry.
    pub fn remove(
        &mut self,
        hash: u64,
        is_it: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let found = self.shard(hash).find_entry(hash, is_it);
        let (entry, _) = found.ok()?.remove();
        self.len -= 1;
        if self.shard_count() > 1 && self.len < FULL * self.shard_count() / 8 {
            self.divide(self.shard_count() / 4, &hash_of);
        }
        Some(entry)
    }

    /// Divides the entries into another number of shards.
    fn divide(&mut self, shards: usize, hash_of: impl Fn(&T) -> u64) {
        let mut divided = Self::with_shards(shards.max(1));
        for entry in self.iter() {
            divided.add(hash_of(entry), entry.clone(), &hash_of);
        }
        divided.len = self.len;
        *self = divided;
    }
}
