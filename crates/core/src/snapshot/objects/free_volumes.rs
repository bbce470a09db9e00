//! Volumes to which claims can be bound, in the order in which claims take them, found by the labels
//! of the nodes that reach them.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;

use super::nodes::NodeRef;
use crate::matching::Quantity;
use crate::matching::storage::PersistentVolume;

/// The number of keys up to which each is looked up among the labels of a node, and not the labels
/// among the keys.
const FEW_KEYS: usize = 4;

/// The place of a volume among those that a claim may take: the smallest first, then by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeRank {
    /// The volume's size; 0 for a volume that is reserved for a claim.
    pub size: Quantity,
    /// The volume's name.
    pub name: Arc<str>,
}

/// A volume to which claims can be bound.
#[derive(Debug)]
pub struct FreeVolume {
    /// Where the volume is in lists.
    pub rank: VolumeRank,
    /// The volume.
    pub volume: Arc<PersistentVolume>,
    /// True if every node reaches the volume in whose lists it is.
    pub is_reached: bool,
}

/// A free volume in a list. Lists share it.
#[derive(Debug, Clone)]
struct ByRank(Arc<FreeVolume>);

/// Free volumes by their rank.
#[derive(Debug, Clone, Default)]
pub struct VolumeList(BTreeSet<ByRank>);

/// The free volumes of a class.
#[derive(Debug, Clone, Default)]
pub struct FreeVolumes {
    /// The volumes that only nodes with certain labels reach, by key and value of the label.
    by_label: HashMap<Box<str>, HashMap<Box<str>, VolumeList>>,
    /// The other volumes.
    anywhere: VolumeList,
    /// The number of volumes.
    count: usize,
}

/// Returns whether a node reaches a volume. Its affinity reads only labels.
pub fn reaches(volume: &PersistentVolume, node: NodeRef<'_>) -> bool {
    let affinity = volume.affinity.as_ref();
    affinity.is_none_or(|affinity| affinity.matches("", |key| node.label_text(key)))
}

impl PartialEq for ByRank {
    fn eq(&self, other: &Self) -> bool {
        self.0.rank == other.0.rank
    }
}

impl Eq for ByRank {}

impl PartialOrd for ByRank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByRank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.rank.cmp(&other.0.rank)
    }
}

impl Borrow<VolumeRank> for ByRank {
    fn borrow(&self) -> &VolumeRank {
        &self.0.rank
    }
}

impl VolumeList {
    /// The volumes from a rank on, in order.
    pub fn from(&self, rank: &VolumeRank) -> impl Iterator<Item = &Arc<FreeVolume>> {
        let range = (Bound::Included(rank), Bound::Unbounded);
        self.0.range::<VolumeRank, _>(range).map(|listed| &listed.0)
    }

    /// All volumes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<FreeVolume>> {
        self.0.iter().map(|listed| &listed.0)
    }

    /// Returns a number that no other list of the same state has.
    pub fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Adds a volume.
    pub(super) fn add(&mut self, free: &Arc<FreeVolume>) {
        self.0.insert(ByRank(Arc::clone(free)));
    }

    /// Removes a volume. Returns whether the list is then empty.
    pub(super) fn take(&mut self, rank: &VolumeRank) -> bool {
        self.0.remove(rank);
        self.0.is_empty()
    }
}

impl FreeVolume {
    /// A volume that is available for claims of its class.
    pub(super) fn available(name: &str, volume: &Arc<PersistentVolume>) -> Self {
        let rank = VolumeRank {
            size: volume.size,
            name: name.into(),
        };
        let needed = volume.needed_labels();
        Self {
            is_reached: volume.affinity.is_none() || needed.is_some_and(|needed| needed.suffice),
            volume: Arc::clone(volume),
            rank,
        }
    }

    /// A volume that is reserved for a claim.
    pub(super) fn reserved(name: &str, volume: &Arc<PersistentVolume>) -> Self {
        Self {
            rank: VolumeRank {
                size: Quantity::default(),
                name: name.into(),
            },
            is_reached: volume.affinity.is_none(),
            volume: Arc::clone(volume),
        }
    }

    /// Returns a number that no other volume of the same state has.
    pub fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl FreeVolumes {
    /// Adds a volume.
    pub(super) fn add(&mut self, free: &Arc<FreeVolume>) {
        self.count += 1;
        let Some(needed) = free.volume.needed_labels() else {
            return self.anywhere.add(free);
        };
        for (key, value) in needed.pairs {
            let values = self.by_label.entry_ref(key).or_default();
            values.entry_ref(value).or_default().add(free);
        }
    }

    /// Removes a volume.
    pub(super) fn take(&mut self, volume: &PersistentVolume, rank: &VolumeRank) {
        self.count -= 1;
        let Some(needed) = volume.needed_labels() else {
            self.anywhere.take(rank);
            return;
        };
        for (key, value) in needed.pairs {
            let Some(values) = self.by_label.get_mut(key) else {
                continue;
            };
            if values.get_mut(value).is_some_and(|list| list.take(rank)) {
                values.remove(value);
            }
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }

    /// Returns whether there are no volumes.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the lists with all volumes that a node may reach to `lists`. A volume may be in several
    /// of them. Returns the number of lookups.
    pub fn find<'a>(&'a self, node: NodeRef<'_>, lists: &mut Vec<&'a VolumeList>) -> usize {
        lists.extend(Some(&self.anywhere).filter(|list| !list.0.is_empty()));
        if self.by_label.len() <= FEW_KEYS {
            let keys = self.by_label.iter();
            lists.extend(keys.filter_map(|(key, values)| values.get(node.label_text(key)?)));
            return self.by_label.len();
        }
        let mut lookups = 0;
        for (key, value) in node.label_texts() {
            lookups += 1;
            lists.extend(self.by_label.get(key).and_then(|values| values.get(value)));
        }
        lookups
    }

    /// All lists, each with its label; `None` for the list of the volumes that need none.
    pub fn lists(&self) -> impl Iterator<Item = (Option<(&str, &str)>, &VolumeList)> {
        let by_label = self.by_label.iter().flat_map(|(key, values)| {
            let lists = values.iter();
            lists.map(move |(value, list)| (Some((&**key, &**value)), list))
        });
        by_label.chain([(None, &self.anywhere)])
    }
}
