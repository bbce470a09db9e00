//! The storage that pods on nodes use, of all namespaces: the users of each claim and disk, and
//! the storage of each reservation, which holds volumes.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;

use super::reservation::{Serial, serial_of};
use super::slots::Slot;
use crate::matching::{DiskKind, PodDisk, UsedStorage, absolute};

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

/// The pods that use each claim and disk. An entry is removed with its last pod.
#[derive(Debug, Clone, Default)]
pub struct StorageUse {
    claims: UseTable<Slot>,
    /// The uses of disks, each with the disk as the pods of a node use it.
    disks: UseTable<(Slot, PodDisk)>,
    /// The storage that each reservation uses, by its number and node.
    reserved: BTreeMap<(Serial, Slot), PodUse>,
}

/// The numbers of pods that use something in one way, by a key.
#[derive(Debug, Clone)]
struct UseTable<U> {
    by_key: HashMap<Box<str>, HashMap<U, u32>>,
}

impl<U> Default for UseTable<U> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
        }
    }
}

impl<U: Clone + Eq + Hash> UseTable<U> {
    /// Counts a pod that comes or goes.
    fn shift(&mut self, key: &str, used: &U, comes: bool) {
        match comes {
            true => self.add(key, used),
            false => self.take(key, used),
        }
    }

    fn add(&mut self, key: &str, used: &U) {
        let uses = self.by_key.entry_ref(key).or_default();
        match uses.get_mut(used) {
            Some(pods) => *pods += 1,
            None => {
                uses.insert(used.clone(), 1);
            }
        }
    }

    fn take(&mut self, key: &str, used: &U) {
        let uses = self.by_key.get_mut(key);
        let uses = uses.expect("the storage of a pod that goes was counted");
        let pods = uses.get_mut(used);
        let pods = pods.expect("the storage of a pod that goes was counted");
        *pods -= 1;
        if *pods == 0 {
            uses.remove(used);
        }
        if uses.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// The uses with a key, each with its number of pods.
    fn of<'a>(&'a self, key: &str) -> impl Iterator<Item = (&'a U, u32)> + use<'a, U> {
        let uses = self.by_key.get(key).into_iter().flatten();
        uses.map(|(used, pods)| (used, *pods))
    }

    /// All uses, in no order.
    fn iter(&self) -> impl Iterator<Item = (&str, &U, u32)> {
        let all = self.by_key.iter();
        all.flat_map(|(key, uses)| uses.iter().map(move |(used, pods)| (&**key, used, *pods)))
    }
}

/// The number of pods on a node that use the same claim or disk.
#[derive(Debug, Clone, Copy)]
pub struct NodeUse<'a> {
    /// The node.
    pub slot: Slot,
    /// The disk, as these pods use it; `None` for a claim.
    pub disk: Option<&'a PodDisk>,
    /// The number of pods.
    pub pods: u32,
}

/// The key of a claim. It never equals the key of a disk, which begins with a slash.
fn claim_key(namespace: &str, claim: &str) -> Box<str> {
    format!("{namespace}/{claim}").into()
}

fn disk_key(kind: DiskKind, id: &str) -> Box<str> {
    format!("/{kind:?}/{id}").into()
}

impl PodUse {
    /// The keys of the claims that the pod names.
    fn claims(&self) -> impl Iterator<Item = Box<str>> {
        let named = self.used.claims.iter().filter(|claim| !claim.is_ephemeral);
        named.map(|claim| claim_key(&self.namespace, &absolute(&claim.name, &self.name)))
    }
}

impl StorageUse {
    /// Counts a pod that comes to a node or leaves it.
    pub fn shift(&mut self, slot: Slot, pod: &PodUse, comes: bool) {
        for key in pod.claims() {
            self.claims.shift(&key, &slot, comes);
        }
        for disk in &pod.used.disks {
            let key = disk_key(disk.kind, &disk.id);
            self.disks.shift(&key, &(slot, disk.clone()), comes);
        }
        let Some(serial) = serial_of(&pod.name) else {
            return;
        };
        match comes {
            true => self.reserved.insert((serial, slot), pod.clone()),
            false => self.reserved.remove(&(serial, slot)),
        };
    }

    /// Returns the storage that reservations use, with their nodes, in the order in which the
    /// reservations were made.
    pub fn reserved(&self) -> impl Iterator<Item = (Slot, &PodUse)> {
        let reserved = self.reserved.iter();
        reserved.map(|((_, slot), used)| (*slot, used))
    }

    /// The nodes with pods that use a claim.
    pub fn users_of(&self, claim: &str, namespace: &str) -> impl Iterator<Item = Slot> {
        let key = claim_key(namespace, claim);
        self.claims.of(&key).map(|(slot, _)| *slot)
    }

    /// The nodes with pods that use a disk of a kind with an id, each with the disk as they use it.
    pub fn uses_of(&self, kind: DiskKind, id: &str) -> impl Iterator<Item = &(Slot, PodDisk)> {
        let key = disk_key(kind, id);
        self.disks.of(&key).map(|(used, _)| used)
    }

    /// All uses, in no order, each with a text that names the claim or disk.
    pub fn iter(&self) -> impl Iterator<Item = (&str, NodeUse<'_>)> {
        let claims = self.claims.iter().map(|(key, slot, pods)| {
            let (slot, disk) = (*slot, None);
            (key, NodeUse { slot, disk, pods })
        });
        let disks = self.disks.iter().map(|(key, (slot, disk), pods)| {
            let (slot, disk) = (*slot, Some(disk));
            (key, NodeUse { slot, disk, pods })
        });
        claims.chain(disks)
    }
}
