//! The pods of a namespace by name: a cluster has many more pods than anything else.
//!
//! The table is divided into shards, which copies share. So a change of a table that has a copy
//! copies one shard, and the references to the others in two levels.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::pod::PodRecord;
use crate::account::heap;

/// The average number of pods in a shard above which the number of shards is doubled.
const FULL: usize = 64;

/// The most shards of a group.
const GROUP: usize = 64;

type PodShard = HashTable<(Arc<str>, PodRecord)>;

/// Pods by name.
#[derive(Debug, Clone)]
pub struct PodTable {
    /// The shards, in groups of equal length. Their number is a power of two.
    groups: Vec<Arc<[Arc<PodShard>]>>,
    hasher: DefaultHashBuilder,
    len: usize,
    /// The bytes of what shards hold on the heap.
    shard_bytes: usize,
}

impl Default for PodTable {
    fn default() -> Self {
        Self::with_shards(1, DefaultHashBuilder::default())
    }
}

/// Returns the bytes of a pod on the heap.
fn pod_bytes(name: &str, pod: &PodRecord) -> usize {
    heap::shared(name.len()) + pod.life.heap_bytes()
}

/// Adds a pod that the shard does not have.
fn insert(shard: &mut PodShard, pod: (Arc<str>, PodRecord), hasher: &DefaultHashBuilder) {
    let hash_of = |(name, _): &(Arc<str>, PodRecord)| hasher.hash_one(&**name);
    shard.insert_unique(hash_of(&pod), pod, hash_of);
}

impl PodTable {
    /// The bytes of an empty table on the heap.
    pub const EMPTY_BYTES: usize = heap::block(size_of::<Arc<[Arc<PodShard>]>>())
        + heap::shared(size_of::<Arc<PodShard>>())
        + heap::shared(size_of::<PodShard>());

    fn with_shards(shards: usize, hasher: DefaultHashBuilder) -> Self {
        let group = |_| (0..shards.min(GROUP)).map(|_| Arc::default()).collect();
        Self {
            groups: (0..shards.div_ceil(GROUP)).map(group).collect(),
            hasher,
            len: 0,
            shard_bytes: 0,
        }
    }

    fn shard_count(&self) -> usize {
        self.groups.len() * self.groups[0].len()
    }

    /// The group of the shard for a hash, and the number of the shard in the group. The table of a
    /// shard uses the highest and the lowest bits of the same hash.
    fn place(&self, hash: u64) -> (usize, usize) {
        let at = (hash >> 32) as usize & (self.shard_count() - 1);
        (at / GROUP, at % GROUP)
    }

    /// A pod by name.
    pub fn get(&self, name: &str) -> Option<&PodRecord> {
        let hash = self.hasher.hash_one(name);
        let (group, shard) = self.place(hash);
        let found = self.groups[group][shard].find(hash, |(other, _)| **other == *name);
        found.map(|(_, pod)| pod)
    }

    /// Changes the shard for a hash, which is copied if a copy of the table shares it.
    fn change<R>(
        &mut self,
        hash: u64,
        change: impl FnOnce(&mut PodShard, &DefaultHashBuilder) -> R,
    ) -> R {
        let (group, shard) = self.place(hash);
        let shard = Arc::make_mut(&mut Arc::make_mut(&mut self.groups[group])[shard]);
        self.shard_bytes -= heap::block(shard.allocation_size());
        let done = change(shard, &self.hasher);
        self.shard_bytes += heap::block(shard.allocation_size());
        done
    }

    /// Adds a pod, or replaces the one of its name.
    pub fn put(&mut self, name: &str, pod: PodRecord) {
        self.shard_bytes += pod_bytes(name, &pod);
        let hash = self.hasher.hash_one(name);
        let old = self.change(hash, |shard, hasher| {
            match shard.find_mut(hash, |(other, _)| **other == *name) {
                Some((_, old)) => Some(std::mem::replace(old, pod)),
                None => {
                    insert(shard, (name.into(), pod), hasher);
                    None
                }
            }
        });
        match old {
            Some(old) => self.shard_bytes -= pod_bytes(name, &old),
            None => {
                self.len += 1;
                if self.len > FULL * self.shard_count() {
                    self.divide(2 * self.shard_count());
                }
            }
        }
    }

    /// Removes a pod.
    pub fn remove(&mut self, name: &str) -> Option<PodRecord> {
        self.get(name)?;
        let hash = self.hasher.hash_one(name);
        let (_, pod) = self.change(hash, |shard, _| {
            let found = shard.find_entry(hash, |(other, _)| **other == *name);
            found.expect("the table has the pod").remove().0
        });
        self.shard_bytes -= pod_bytes(name, &pod);
        self.len -= 1;
        if self.shard_count() > 1 && self.len < FULL * self.shard_count() / 8 {
            self.divide(self.shard_count() / 4);
        }
        Some(pod)
    }

    /// Divides the pods into another number of shards.
    fn divide(&mut self, shards: usize) {
        let mut divided = Self::with_shards(shards.max(1), self.hasher.clone());
        for (name, pod) in self.iter() {
            let hash = divided.hasher.hash_one(&**name);
            divided.change(hash, |shard, hasher| {
                insert(shard, (Arc::clone(name), pod.clone()), hasher);
            });
            divided.shard_bytes += pod_bytes(name, pod);
        }
        divided.len = self.len;
        *self = divided;
    }

    /// All pods with their names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &PodRecord)> {
        let shards = self.groups.iter().flat_map(|group| group.iter());
        let pods = shards.flat_map(|shard| shard.iter());
        pods.map(|(name, pod)| (name, pod))
    }

    /// The names, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> = self.iter().map(|(name, _)| &**name).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// Returns the number of pods.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no pods.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the estimated bytes on the heap.
    pub fn memory_bytes(&self) -> usize {
        let group = heap::shared(size_of_val(&*self.groups[0]));
        heap::list::<Arc<[Arc<PodShard>]>>(self.groups.capacity())
            + self.groups.len() * group
            + self.shard_count() * heap::shared(size_of::<PodShard>())
            + self.shard_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::proto::v1;
    use crate::snapshot::objects::label_sets::LabelSetId;
    use crate::snapshot::objects::pod::CompiledPod;

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
            life: CompiledPod::trusted(&pod).life,
        }
    }

    #[test]
    fn a_table_has_what_was_put_and_a_copy_stays_as_it_was() {
        let mut table = PodTable::default();
        let mut wanted = BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        let empty = table.memory_bytes();
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
        let left = table.memory_bytes() - empty;
        assert!(left < 20_000, "{left} bytes of an empty table");
    }
}
