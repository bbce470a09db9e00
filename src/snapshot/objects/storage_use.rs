//! What storage the pods that are on nodes use, of all namespaces: who uses a claim or a
//! disk.

use std::sync::Arc;

use hashbrown::HashMap;

use super::slots::Slot;
use crate::account::heap;
use crate::matching::{PodDisk, UsedStorage, absolute};

/// What a pod uses.
#[derive(Debug, Clone)]
pub struct PodUse {
    used: Arc<UsedStorage>,
    namespace: Box<str>,
    name: Box<str>,
}

/// Who uses what. Entries go with their last pod.
#[derive(Debug, Clone, Default)]
pub struct StorageUse {
    /// By what is used.
    by_key: HashMap<Box<str>, Vec<NodeUse>>,
    /// What keys and lists have on the heap.
    heap_bytes: usize,
}

/// How many pods on a node use something.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeUse {
    /// The node.
    pub slot: Slot,
    /// The disk, as these pods use it; `None` of a claim.
    pub disk: Option<PodDisk>,
    /// The pods.
    pub pods: u32,
}

/// A namespace has no slash, and each kind of disk has a letter.
fn claim_key(namespace: &str, claim: &str) -> Box<str> {
    format!("{namespace}/{claim}").into()
}

fn disk_key(disk: &PodDisk) -> Box<str> {
    format!("/{:?}/{}", disk.kind, disk.id).into()
}

impl PodUse {
    /// Returns what a pod uses that has this namespace and name.
    pub fn of(used: &Arc<UsedStorage>, namespace: &str, name: &str) -> Self {
        Self {
            used: Arc::clone(used),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn keys(&self) -> impl Iterator<Item = (Box<str>, Option<&PodDisk>)> {
        let claims = self.used.claims.iter().map(|claim| {
            let claim = absolute(claim, &self.name);
            (claim_key(&self.namespace, &claim), None)
        });
        let disks = self.used.disks.iter();
        claims.chain(disks.map(|disk| (disk_key(disk), Some(disk))))
    }
}

impl StorageUse {
    /// Returns whether nothing is used.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// A pod comes to a node, or goes from it.
    pub fn shift(&mut self, slot: Slot, pod: &PodUse, comes: bool) {
        for (key, disk) in pod.keys() {
            match comes {
                true => self.add(key, slot, disk),
                false => self.take(&key, slot, disk),
            }
        }
    }

    fn add(&mut self, key: Box<str>, slot: Slot, disk: Option<&PodDisk>) {
        self.heap_bytes -= self.bytes_of(&key);
        let uses = self.by_key.entry(key.clone()).or_default();
        let mut same = uses.iter_mut();
        match same.find(|it| it.slot == slot && it.disk.as_ref() == disk) {
            Some(known) => known.pods += 1,
            None => uses.push(NodeUse {
                slot,
                disk: disk.cloned(),
                pods: 1,
            }),
        }
        self.heap_bytes += self.bytes_of(&key);
    }

    fn take(&mut self, key: &str, slot: Slot, disk: Option<&PodDisk>) {
        self.heap_bytes -= self.bytes_of(key);
        let uses = self.by_key.get_mut(key);
        let uses = uses.expect("the storage of a pod that goes was counted");
        let same = uses
            .iter()
            .position(|it| it.slot == slot && it.disk.as_ref() == disk);
        let at = same.expect("the storage of a pod that goes was counted");
        uses[at].pods -= 1;
        if uses[at].pods == 0 {
            uses.swap_remove(at);
        }
        if uses.is_empty() {
            self.by_key.remove(key);
        }
        self.heap_bytes += self.bytes_of(key);
    }

    /// The nodes with pods that use a claim.
    pub fn users_of(&self, claim: &str, namespace: &str) -> impl Iterator<Item = Slot> {
        let uses = self.by_key.get(&claim_key(namespace, claim));
        uses.into_iter().flatten().map(|used| used.slot)
    }

    /// Who uses a disk or one that looks like it.
    pub fn uses_of(&self, disk: &PodDisk) -> &[NodeUse] {
        self.by_key.get(&disk_key(disk)).map_or(&[], |uses| uses)
    }

    /// All uses, in no order, with a text that says what is used.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NodeUse)> {
        let all = self.by_key.iter();
        all.flat_map(|(key, uses)| uses.iter().map(move |used| (&**key, used)))
    }

    /// Returns what a key and its list have on the heap: as long as they could be, whatever room
    /// the list has spare.
    fn bytes_of(&self, key: &str) -> usize {
        let uses = self.by_key.get(key);
        let disk = |used: &NodeUse| used.disk.as_ref().map_or(0, PodDisk::heap_bytes);
        uses.map_or(0, |uses| {
            heap::block(key.len())
                + 2 * heap::list::<NodeUse>(uses.len())
                + uses.iter().map(disk).sum::<usize>()
        })
    }

    /// As [`Self::memory_bytes`], with everything measured anew.
    pub fn measured_bytes(&self) -> usize {
        let all = self.by_key.keys().map(|key| self.bytes_of(key));
        self.memory_bytes() - self.heap_bytes + all.sum::<usize>()
    }

    /// Returns what it takes in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        heap::table::<Box<str>, Vec<NodeUse>>(self.by_key.capacity()) + self.heap_bytes
    }
}
