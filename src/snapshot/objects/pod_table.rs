//! The pods of a namespace by name, packed: a cluster has many more pods than
//! anything else.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::blocks::Blocks;
use super::pod::PodRecord;
use super::shrink;
use crate::account::heap;

/// Pods are kept in blocks of this many, so that growing moves none of them and
/// wastes less than a block.
const BLOCK: usize = 256;

/// Pods by name.
#[derive(Debug, Clone, Default)]
pub struct PodTable {
    /// Where each pod is, by its name.
    by_name: HashTable<u32>,
    pods: Blocks<NamedPod, BLOCK>,
    hasher: DefaultHashBuilder,
    /// What names and rare parts of pods take.
    heap_bytes: usize,
}

#[derive(Debug, Clone)]
struct NamedPod {
    name: Box<str>,
    pod: PodRecord,
}

impl NamedPod {
    fn heap_bytes(&self) -> usize {
        heap::block(self.name.len()) + self.pod.life.heap_bytes()
    }
}

/// Where a name is looked for, worked out once.
#[derive(Debug, Clone, Copy)]
pub struct PodPlace {
    hash: u64,
    /// Where the pod is, if there is one.
    at: Option<u32>,
}

impl PodTable {
    /// A pod by name.
    pub fn get(&self, name: &str) -> Option<&PodRecord> {
        self.pod(self.find(name))
    }

    /// Where the pod of a name is or would be: good until the table changes.
    pub fn find(&self, name: &str) -> PodPlace {
        let same = |at: &u32| *self.entry(*at).name == *name;
        let hash = self.hasher.hash_one(name);
        PodPlace {
            hash,
            at: self.by_name.find(hash, same).copied(),
        }
    }

    /// The pod of a place.
    pub fn pod(&self, place: PodPlace) -> Option<&PodRecord> {
        Some(&self.entry(place.at?).pod)
    }

    fn entry(&self, at: u32) -> &NamedPod {
        &self.pods[at as usize]
    }

    fn entry_mut(&mut self, at: u32) -> &mut NamedPod {
        self.pods.get_mut(at as usize)
    }

    /// Puts a pod in place of the one of its name, which is returned; `place`
    /// is that of the name.
    pub fn put(&mut self, place: PodPlace, name: &str, pod: PodRecord) -> Option<PodRecord> {
        if let Some(at) = place.at {
            self.heap_bytes += pod.life.heap_bytes();
            let old = std::mem::replace(&mut self.entry_mut(at).pod, pod);
            self.heap_bytes -= old.life.heap_bytes();
            return Some(old);
        }
        let at = u32::try_from(self.len()).expect("fewer than 2^32 pods");
        let entry = NamedPod {
            name: name.into(),
            pod,
        };
        self.heap_bytes += entry.heap_bytes();
        self.pods.push(entry);
        let Self {
            by_name,
            pods,
            hasher,
            ..
        } = self;
        by_name.insert_unique(place.hash, at, |at| {
            hasher.hash_one(&*pods[*at as usize].name)
        });
        None
    }

    /// Takes a pod out.
    pub fn remove(&mut self, name: &str) -> Option<PodRecord> {
        let at = self.find(name).at?;
        self.heap_bytes -= self.entry(at).heap_bytes();
        self.unlink(at);
        // The last pod moves into the gap.
        let last = self.pods.pop().expect("a found pod is in the table");
        let from = u32::try_from(self.by_name.len()).expect("fewer than 2^32 pods");
        if from == at {
            return Some(last.pod);
        }
        let hash = self.hasher.hash_one(&*last.name);
        let link = self.by_name.find_mut(hash, |other| *other == from);
        *link.expect("every pod is linked") = at;
        Some(std::mem::replace(self.entry_mut(at), last).pod)
    }

    fn unlink(&mut self, at: u32) {
        let hash = self.hasher.hash_one(&*self.entry(at).name);
        let link = self.by_name.find_entry(hash, |other| *other == at);
        link.expect("every pod is linked").remove();
        if let Some(capacity) = shrink::shrunk(self.by_name.len(), self.by_name.capacity()) {
            let Self {
                by_name,
                pods,
                hasher,
                ..
            } = self;
            by_name.shrink_to(capacity, |at| hasher.hash_one(&*pods[*at as usize].name));
        }
    }

    /// All pods with their names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PodRecord)> {
        self.pods.iter().map(|entry| (&*entry.name, &entry.pod))
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How much its table grows at once with this many more pods.
    pub fn doubling(&self, more: usize) -> usize {
        let table = heap::block(self.by_name.allocation_size());
        heap::doubling(table, self.len(), self.by_name.capacity(), more)
    }

    /// The same as [`Self::memory_bytes`], with every pod measured again.
    pub fn measured_bytes(&self) -> usize {
        let pods = self.pods.iter().map(NamedPod::heap_bytes);
        self.memory_bytes() - self.heap_bytes + pods.sum::<usize>()
    }

    /// What it takes in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes + self.pods.memory_bytes() + heap::block(self.by_name.allocation_size())
    }
}
