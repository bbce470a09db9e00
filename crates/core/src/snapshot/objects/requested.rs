//! The requests of the pods of all namespaces on each node, their terms about other pods, and the
//! storage that they use: the users of each claim and disk, and that of reservations, which hold volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::blocks::Blocks;
use super::name_table::NameTable;
use super::pod_terms::TermTable;
use super::requirements::ReadRequirements;
use super::reservation::{Serial, serial_of};
use super::slots::Slot;
use crate::matching::{DiskKind, PodDisk, Requested, Requests, UsedStorage, absolute};
use crate::snapshot::deadline::{Deadline, Stopped};

/// The number of nodes in a block: decisions read copies, and a change of a node then copies its
/// block.
const BLOCK: usize = 4;

/// The requests of the pods on each node, by slot. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct RequestedTable {
    nodes: Blocks<NodePods, BLOCK>,
    anti_affinity: Arc<TermTable>,
    scored_terms: Arc<TermTable>,
    storage: Arc<StorageUse>,
}

/// A pod that names a node.
pub struct PodOnNode<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// True if it takes room on its node.
    pub takes_room: bool,
    /// What it requires, if it takes room.
    pub requires: Option<&'a ReadRequirements>,
}

/// The pods of a node.
#[derive(Debug, Clone, Default)]
struct NodePods {
    requested: Requested,
    /// The number of pods that name the node, whether or not they take room on it.
    pods: u32,
    /// The requests of the pods whose priority is not 0.
    of_priorities: Vec<RequestedOfPriority>,
}

/// The requests of the pods of one priority.
#[derive(Debug, Clone)]
struct RequestedOfPriority {
    priority: i32,
    requested: Requested,
}

impl NodePods {
    /// Adds the requests of a pod that comes, or takes away those of one that leaves.
    fn shift(&mut self, requests: Option<&Requests>, priority: i32, comes: bool) {
        let shift = |sum: &mut Requested| match comes {
            true => sum.add(requests),
            false => sum.remove(requests),
        };
        shift(&mut self.requested);
        if priority == 0 {
            return;
        }
        let all = &mut self.of_priorities;
        let place = all.iter().position(|it| it.priority == priority);
        let place = place.unwrap_or_else(|| {
            all.push(RequestedOfPriority {
                priority,
                requested: Requested::default(),
            });
            all.len() - 1
        });
        shift(&mut all[place].requested);
        if all[place].requested.pods() == 0 {
            all.swap_remove(place);
        }
    }

    /// The requests of the pods whose priority is not lower than this.
    fn requested_from(&self, priority: i32) -> Requested {
        let all = self.of_priorities.iter();
        if priority > 0 {
            let mut sum = Requested::default();
            let kept = all.filter(|it| it.priority >= priority);
            kept.for_each(|it| sum.merge(&it.requested, 1));
            return sum;
        }
        let mut sum = self.requested.clone();
        let lower = all.filter(|it| it.priority < priority);
        lower.for_each(|it| sum.merge(&it.requested, -1));
        sum
    }
}

impl RequestedTable {
    /// Returns the sum of the requests of the pods on a node whose priority is not lower than this.
    pub fn at_or_above(&self, slot: Slot, priority: i32) -> Requested {
        let pods = self.pods_of(slot);
        pods.map_or_else(Requested::default, |pods| pods.requested_from(priority))
    }

    /// Returns the sum of the requests of pods on a node.
    pub fn get(&self, slot: Slot) -> Option<&Requested> {
        self.pods_of(slot).map(|pods| &pods.requested)
    }

    /// The sum of the requests of the pods on each node.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Requested)> {
        let all = self.nodes.iter().enumerate();
        all.map(|(index, pods)| (Slot::at(index), &pods.requested))
    }

    /// Returns whether a pod names the node of a slot.
    pub fn has_pods(&self, slot: Slot) -> bool {
        self.pods_of(slot).is_some_and(|pods| pods.pods > 0)
    }

    fn pods_of(&self, slot: Slot) -> Option<&NodePods> {
        let index = slot.index();
        (index < self.nodes.len()).then(|| &self.nodes[index])
    }

    /// The terms by which pods keep other pods away.
    pub fn anti_affinity(&self) -> &TermTable {
        &self.anti_affinity
    }

    /// The terms by which kube-scheduler scores nodes for other pods.
    pub fn scored_terms(&self) -> &TermTable {
        &self.scored_terms
    }

    /// Returns the storage that pods use.
    pub fn storage_use(&self) -> &StorageUse {
        &self.storage
    }

    /// Counts a pod that comes to a node or leaves it.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn shift(
        &mut self,
        slot: Slot,
        pod: &PodOnNode<'_>,
        comes: bool,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        let none = ReadRequirements::default();
        let requires = pod.requires.unwrap_or(&none);
        let tables = [
            (&mut self.anti_affinity, &requires.keeps_away),
            (&mut self.scored_terms, &requires.scored),
        ];
        for (table, terms) in tables {
            if let Some(terms) = terms {
                deadline.step(terms.len())?;
                Arc::make_mut(table).shift(slot, terms, pod.namespace, comes);
            }
        }
        if let Some(used) = &requires.storage {
            deadline.step(used.claims.len() + used.disks.len())?;
            let used = PodUse {
                used: Arc::clone(used),
                namespace: pod.namespace.into(),
                name: pod.name.into(),
            };
            Arc::make_mut(&mut self.storage).shift(slot, &used, comes);
        }
        let requests = requires.requests.as_deref();
        deadline.step(1 + requests.map_or(0, Requests::rare_len))?;
        let node = self.node(slot);
        match comes {
            true => node.pods += 1,
            false => node.pods -= 1,
        }
        if pod.takes_room {
            node.shift(requests, requires.priority, comes);
        }
        Ok(())
    }

    fn node(&mut self, slot: Slot) -> &mut NodePods {
        while self.nodes.len() <= slot.index() {
            self.nodes.push(NodePods::default());
        }
        self.nodes.get_mut(slot.index())
    }
}

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
    uses: NameTable<HashMap<UsedBy, u32>>,
    /// The storage that each reservation uses, by its number and node.
    reserved: BTreeMap<(Serial, Slot), PodUse>,
}

/// The node of a user, and a disk as the user uses it; `None` for a claim.
type UsedBy = (Slot, Option<PodDisk>);

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
        if self.uses.get(key).is_none() {
            self.uses.put(key, HashMap::new());
        }
        let uses = self.uses.get_mut(key).expect("the key was put");
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

    /// All uses, in no order: a text that names the claim or disk, the node, the disk as pods use it, and
    /// the number of these.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Slot, Option<&PodDisk>, u32)> {
        let all = self.uses.iter();
        all.flat_map(|(key, uses)| {
            let uses = uses.iter();
            uses.map(move |((slot, disk), pods)| (key, *slot, disk.as_ref(), *pods))
        })
    }
}
