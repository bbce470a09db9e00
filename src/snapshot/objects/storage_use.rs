//! The storage that pods on nodes use, of all namespaces: the users of each claim and disk, and
//! the storage of each reservation, which holds volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::reservation::{Serial, serial_of};
use super::slots::Slot;
use crate::account::heap::{self, OnHeap, on_heap};
use crate::matching::{PodDisk, UsedStorage, absolute};

/// The claims and disks that a pod uses.
#[derive(Debug, Clone)]
pub struct PodUse {
    /// The claims and disks.
    pub used: Arc<UsedStorage>,
    /// Namespace of the pod.
    pub namespace: Box<str>,
    /// Name of the pod.
    pub name: Box<str>,
}

on_heap!(PodUse: namespace, name);

/// The pods that use each claim and disk. An entry is removed with its last pod.
#[derive(Debug, Clone, Default)]
pub struct StorageUse {
    /// The uses, by the key of the claim or disk.
    by_key: HashMap<Box<str>, Vec<NodeUse>>,
    /// The storage that each reservation uses, by its number and node.
    reserved: BTreeMap<(Serial, Slot), PodUse>,
    /// The bytes of keys, lists and names on the heap.
    heap_bytes: usize,
}

/// The number of pods on a node that use the same claim or disk.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeUse {
    /// The node.
    pub slot: Slot,
    /// The disk, as these pods use it; `None` for a claim.
    pub disk: Option<PodDisk>,
    /// The number of pods.
    pub pods: u32,
}

/// The key of a claim. It never equals the key of a disk, which begins with a slash.
fn claim_key(namespace: &str, claim: &str) -> Box<str> {
    format!("{namespace}/{claim}").into()
}

fn disk_key(disk: &PodDisk) -> Box<str> {
    format!("/{:?}/{}", disk.kind, disk.id).into()
}

impl PodUse {
    fn keys(&self) -> impl Iterator<Item = (Box<str>, Option<&PodDisk>)> {
        let named = self.used.claims.iter().filter(|claim| !claim.is_ephemeral);
        let claims = named.map(|claim| {
            let claim = absolute(&claim.name, &self.name);
            (claim_key(&self.namespace, &claim), None)
        });
        let disks = self.used.disks.iter();
        claims.chain(disks.map(|disk| (disk_key(disk), Some(disk))))
    }
}

impl StorageUse {
    /// Counts a pod that comes to a node or leaves it.
    pub fn shift(&mut self, slot: Slot, pod: &PodUse, comes: bool) {
        for (key, disk) in pod.keys() {
            match comes {
                true => self.add(key, slot, disk),
                false => self.take(&key, slot, disk),
            }
        }
        let Some(serial) = serial_of(&pod.name) else {
            return;
        };
        let old = match comes {
            true => self.reserved.insert((serial, slot), pod.clone()),
            false => self.reserved.remove(&(serial, slot)),
        };
        self.heap_bytes += if comes { pod.heap_bytes() } else { 0 };
        self.heap_bytes -= old.map_or(0, |old| old.heap_bytes());
    }

    /// Returns the storage that reservations use, with their nodes, in the order in which the
    /// reservations were made.
    pub fn reserved(&self) -> impl Iterator<Item = (Slot, &PodUse)> {
        let reserved = self.reserved.iter();
        reserved.map(|((_, slot), used)| (*slot, used))
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

    /// Returns the pods that use a disk or one that looks like it.
    pub fn uses_of(&self, disk: &PodDisk) -> &[NodeUse] {
        self.by_key.get(&disk_key(disk)).map_or(&[], |uses| uses)
    }

    /// All uses, in no order, each with a text that names the claim or disk.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NodeUse)> {
        let all = self.by_key.iter();
        all.flat_map(|(key, uses)| uses.iter().map(move |used| (&**key, used)))
    }

    /// Returns the bytes of a key and its list on the heap, at the largest room that the list could
    /// have.
    fn bytes_of(&self, key: &str) -> usize {
        let uses = self.by_key.get(key);
        let disk = |used: &NodeUse| used.disk.heap_bytes();
        uses.map_or(0, |uses| {
            heap::block(key.len())
                + 2 * heap::list::<NodeUse>(uses.len())
                + uses.iter().map(disk).sum::<usize>()
        })
    }

    /// Returns the estimated bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        heap::table::<Box<str>, Vec<NodeUse>>(self.by_key.capacity())
            + heap::tree::<(Serial, Slot), PodUse>(self.reserved.len())
            + self.heap_bytes
    }
}
