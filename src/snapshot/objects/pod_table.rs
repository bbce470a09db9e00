//! The pods of a namespace by name, packed: a cluster has many more pods than
//! anything else.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::pod::PodRecord;
use super::pod_block::{PodBlock, PodName};
use super::shrink;
use crate::account::heap;

/// The number of pods in a block. So growing moves no pods and wastes less than a block. Copies
/// share unchanged blocks.
const BLOCK: usize = 256;

/// Pods by name.
#[derive(Debug, Clone, Default)]
pub struct PodTable {
    /// The index of each pod, by its name.
    by_name: HashTable<u32>,
    /// The blocks; all but the last one are full.
    blocks: Vec<Arc<PodBlock>>,
    hasher: DefaultHashBuilder,
    block_bytes: usize,
}

/// The place of a name in the table, computed once.
#[derive(Debug, Clone, Copy)]
pub struct PodPlace {
    hash: u64,
    /// The index of the pod, if there is one.
    at: Option<u32>,
}

/// The block of a pod, and the pod's number in that block.
fn place(at: u32) -> (usize, usize) {
    (at as usize / BLOCK, at as usize % BLOCK)
}

fn hash_at(hasher: &DefaultHashBuilder, blocks: &[Arc<PodBlock>], at: u32) -> u64 {
    let (block, number) = place(at);
    let name = blocks[block].name(number);
    name.with(|name| hasher.hash_one(name))
}

impl PodTable {
    /// A pod by name.
    pub fn get(&self, name: &str) -> Option<PodRecord> {
        self.pod(self.find(name))
    }

    /// Returns the place of a name: valid until the table changes.
    pub fn find(&self, name: &str) -> PodPlace {
        let hash = self.hasher.hash_one(name.as_bytes());
        let found = self.by_name.find(hash, |at| self.name(*at).is(name));
        PodPlace {
            hash,
            at: found.copied(),
        }
    }

    /// The pod of a place.
    pub fn pod(&self, place_of: PodPlace) -> Option<PodRecord> {
        let (block, number) = place(place_of.at?);
        Some(self.blocks[block].pod(number))
    }

    fn name(&self, at: u32) -> PodName<'_> {
        let (block, number) = place(at);
        self.blocks[block].name(number)
    }

    /// Changes a block, which is copied if it is shared.
    fn change<R>(&mut self, block: usize, change: impl FnOnce(&mut PodBlock) -> R) -> R {
        let block = &mut self.blocks[block];
        self.block_bytes -= block.memory_bytes();
        let block = Arc::make_mut(block);
        let done = change(block);
        self.block_bytes += block.memory_bytes();
        done
    }

    /// Replaces or adds the pod of a name; `place_of` is the place of the name.
    pub fn put(&mut self, place_of: PodPlace, name: &str, pod: PodRecord) {
        if let Some(at) = place_of.at {
            let (block, number) = place(at);
            return self.change(block, |block| block.set(number, pod));
        }
        let at = u32::try_from(self.len()).expect("fewer than 2^32 pods");
        let (block, number) = place(at);
        if number == 0 {
            // The first block grows: most namespaces have few pods.
            let room = if block == 0 { 1 } else { BLOCK };
            let block = PodBlock::with_capacity(room);
            self.block_bytes += block.memory_bytes();
            self.blocks.push(Arc::new(block));
        }
        self.change(block, |block| {
            block.push(name, pod);
            if block.len() == BLOCK {
                block.fit();
            }
        });
        let Self {
            by_name,
            blocks,
            hasher,
            ..
        } = self;
        by_name.insert_unique(place_of.hash, at, |at| hash_at(hasher, blocks, *at));
    }

    /// Removes a pod.
    pub fn remove(&mut self, name: &str) -> Option<PodRecord> {
        let at = self.find(name).at?;
        self.unlink(at);
        // The last pod moves into the gap.
        let (block, number) = place(at);
        let last = self.blocks.len() - 1;
        let moved = self.change(last, PodBlock::pop);
        let (moved_name, moved) = moved.expect("a found pod is in the table");
        if self.blocks[last].len() == 0
            && let Some(empty) = self.blocks.pop()
        {
            self.block_bytes -= empty.memory_bytes();
            shrink::shrink_list(&mut self.blocks);
        }
        let from = u32::try_from(self.by_name.len()).expect("fewer than 2^32 pods");
        if from == at {
            return Some(moved);
        }
        let hash = self.hasher.hash_one(moved_name.as_bytes());
        let link = self.by_name.find_mut(hash, |other| *other == from);
        *link.expect("every pod is linked") = at;
        Some(self.change(block, |block| {
            let old = block.pod(number);
            block.replace(number, &moved_name, moved);
            old
        }))
    }

    fn unlink(&mut self, at: u32) {
        let Self {
            by_name,
            blocks,
            hasher,
            ..
        } = self;
        let link = by_name.find_entry(hash_at(hasher, blocks, at), |other| *other == at);
        link.expect("every pod is linked").remove();
        if let Some(capacity) = shrink::shrunk(by_name.len(), by_name.capacity()) {
            by_name.shrink_to(capacity, |at| hash_at(hasher, blocks, *at));
        }
    }

    /// All pods with their names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (PodName<'_>, PodRecord)> {
        self.blocks.iter().flat_map(|block| {
            let all = 0..block.len();
            all.map(|number| (block.name(number), block.pod(number)))
        })
    }

    /// The names, ascending.
    pub fn names(&self) -> impl Iterator<Item = PodName<'_>> {
        let mut all: Vec<u32> = self.by_name.iter().copied().collect();
        all.sort_unstable_by(|a, b| self.name(*a).order(self.name(*b)));
        all.into_iter().map(|at| self.name(at))
    }

    /// Returns the number of pods.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there are no pods.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the estimated bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.block_bytes
            + heap::list::<Arc<PodBlock>>(self.blocks.capacity())
            + heap::block(self.by_name.allocation_size())
    }
}
