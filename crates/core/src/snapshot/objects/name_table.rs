//! A large table by name: the pods of a namespace, or the namespaces.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::hash_trie::HashTrie;

/// Entries by name. Copies share what does not change.
#[derive(Debug, Clone)]
pub struct NameTable<T> {
    entries: HashTrie<NamedEntry<T>>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone)]
struct NamedEntry<T> {
    /// The highest bits of the hash: most names that differ need not be read.
    tag: u32,
    name: Arc<str>,
    entry: T,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self {
            entries: HashTrie::default(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

fn is_named<T>(name: &str, hash: u64) -> impl Fn(&NamedEntry<T>) -> bool {
    move |other| other.tag == tag_of(hash) && *other.name == *name
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
        if let Some(named) = self.entries.find_mut(hash, is_named(name, hash)) {
            named.entry = entry;
            return;
        }
        let named = NamedEntry {
            tag: tag_of(hash),
            name: name.into(),
            entry,
        };
        let hasher = &self.hasher;
        self.entries
            .insert(hash, named, |named| hasher.hash_one(&*named.name));
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.get(name)?;
        let hash = self.hasher.hash_one(name);
        let removed = self.entries.remove(hash, is_named(name, hash))?;
        Some(removed.entry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::proto::v1;
    use crate::snapshot::objects::label_sets::LabelSetId;
    use crate::snapshot::objects::pod::{CompiledPod, PodRecord};

    fn record(uid: u32) -> PodRecord {
        let uid = format!("00000000-0000-0000-0000-{uid:012x}");
        let metadata = Some(v1::ObjectMeta {
            uid,
            ..Default::default()
        });
        let pod = v1::Pod {
            metadata,
            ..Default::default()
        };
        PodRecord {
            labels: LabelSetId::at(0),
            node: None,
            life: CompiledPod::trusted(pod).life,
        }
    }

    #[test]
    fn a_table_has_what_was_put_and_a_copy_stays_as_it_was() {
        let mut table = NameTable::default();
        let mut wanted = BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for size in [10, 1_000, 20_000, 300, 0] {
            let (copy, before) = (table.clone(), wanted.clone());
            while wanted.len() != size {
                let name = format!("pod-{}", random.u32(..40_000));
                if wanted.len() < size {
                    let number = random.u32(..);
                    table.put(&name, record(number));
                    wanted.insert(name, record(number));
                } else {
                    assert_eq!(table.remove(&name), wanted.remove(&name), "{name}");
                }
            }
            for (table, wanted) in [(&table, &wanted), (&copy, &before)] {
                assert!(table.names().eq(wanted.keys()), "{size}");
                assert!(
                    wanted
                        .iter()
                        .all(|(name, pod)| table.get(name) == Some(pod))
                );
                assert_eq!(table.len(), wanted.len());
            }
        }
    }
}
