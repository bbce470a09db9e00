//! The storage that pods on nodes use, of all namespaces: the users of each claim and disk, and
//! the storage of each reservation, which holds volumes.

use std::collections::BTreeMap;
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
    /// The numbers of pods that use a claim or a disk in one way, by its key.
    uses: HashMap<Box<str>, HashMap<UsedBy, u32>>,
    /// The storage that each reservation uses, by its number and node.
    reserved: BTreeMap<(Serial, Slot), PodUse>,
}

/// The node of a user, and a disk as the user uses it; `None` for a claim.
type UsedBy = (Slot, Option<PodDisk>);

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
            self.shift_use(&key, (slot, None), comes);
        }
        for disk in &pod.used.disks {
            let key = disk_key(disk.kind, &disk.id);
            self.shift_use(&key, (slot, Some(disk.clone())), comes);
        }
        let Some(serial) = serial_of(&pod.name) else {
            return;
        };
        match comes {
            true => self.reserved.insert((serial, slot), pod.clone()),
            false => self.reserved.remove(&(serial, slot)),
        };
    }

    fn shift_use(&mut self, key: &str, used: UsedBy, comes: bool) {
        let uses = self.uses.entry_ref(key).or_default();
        let pods = uses.entry(used.clone()).or_default();
        *pods = match comes {
            true => *pods + 1,
            false => *pods - 1,
        };
        if *pods == 0 {
            uses.remove(&used);
        }
        if uses.is_empty() {
            self.uses.remove(key);
        }
    }

    /// Returns the storage that reservations use, with their nodes, in the order in which the
    /// reservations were made.
    pub fn reserved(&self) -> impl Iterator<Item = (Slot, &PodUse)> {
        let reserved = self.reserved.iter();
        reserved.map(|((_, slot), used)| (*slot, used))
    }

    /// The nodes with pods that use a claim.
    pub fn users_of(&self, claim: &str, namespace: &str) -> impl Iterator<Item = Slot> {
        let uses = self.uses.get(&claim_key(namespace, claim));
        uses.into_iter().flatten().map(|((slot, _), _)| *slot)
    }

    /// The nodes with pods that use a disk of a kind with an id, each with the disk as they use it.
    pub fn uses_of(&self, kind: DiskKind, id: &str) -> impl Iterator<Item = (Slot, &PodDisk)> {
        let uses = self.uses.get(&disk_key(kind, id)).into_iter().flatten();
        uses.filter_map(|((slot, disk), _)| Some((*slot, disk.as_ref()?)))
    }

    /// All uses, in no order, each with a text that names the claim or disk.
    pub fn iter(&self) -> impl Iterator<Item = (&str, NodeUse<'_>)> {
        let all = self.uses.iter();
        all.flat_map(|(key, uses)| {
            uses.iter().map(move |((slot, disk), pods)| {
                let used = NodeUse {
                    slot: *slot,
                    disk: disk.as_ref(),
                    pods: *pods,
                };
                (&**key, used)
            })
        })
    }
}
