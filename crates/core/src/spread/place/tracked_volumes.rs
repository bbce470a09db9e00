//! Claims that wait for a pod, and the volumes that picks take for them.

use std::collections::HashMap;

use fixedbitset::FixedBitSet;

use super::super::claim_binding::{Binding, BindingIn};
use super::super::verdict::Reason;
use super::super::volumes::Volumes;
use super::super::waiting_claims::WaitingClaims;
use crate::snapshot::{Deadline, HeldStorage, ReadView, Slot, Stopped, StorageObjects};

/// The storage of a pod, for some nodes. It holds the nodes and the storage of the snapshot.
#[derive(Debug, Clone)]
pub struct TrackedVolumes {
    storage: HeldStorage,
    slots: Vec<Slot>,
    waiting: WaitingClaims,
    /// The nodes that may reach the volumes of a list, by the list's id.
    listed: HashMap<usize, Vec<u32>>,
    /// The nodes on which the claims can be bound at present.
    admitted: FixedBitSet,
    /// True if only one pod may use one of the claims.
    is_once: bool,
    has_picks: bool,
}

impl TrackedVolumes {
    /// The storage of a pod, for nodes that can take the pod; `None` if picks do not affect the
    /// storage.
    pub fn of(
        volumes: &Volumes<'_>,
        slots: &[Slot],
        read_view: &ReadView<'_>,
    ) -> Result<Option<Self>, Stopped> {
        let [_, in_all] = volumes.most();
        let waiting = volumes.waiting.clone();
        if in_all.is_none() && waiting.is_empty() {
            return Ok(None);
        }
        let mut admitted = FixedBitSet::with_capacity(slots.len());
        admitted.insert_range(..);
        let storage = read_view.hold_storage();
        let mut listed: HashMap<usize, Vec<u32>> = HashMap::new();
        for (at, slot) in (0_u32..).zip(slots).filter(|_| !waiting.is_empty()) {
            let within = BindingIn {
                storage: storage.objects(),
                deadline: read_view.deadline,
            };
            let Some(node) = storage.node(*slot) else {
                continue;
            };
            for list in waiting.lists(node, within)? {
                listed.entry(list.id()).or_default().push(at);
            }
        }
        Ok(Some(Self {
            storage,
            slots: slots.to_vec(),
            waiting,
            listed,
            admitted,
            is_once: in_all.is_some(),
            has_picks: false,
        }))
    }

    /// The reason why a node takes no pod at present.
    pub fn refusal(&self, node: u32) -> Option<Reason> {
        if self.is_once && self.has_picks {
            return Some(Reason::ClaimInUse);
        }
        let admits = self.admitted.contains(node as usize);
        (!admits).then_some(Reason::VolumeBinding)
    }

    /// Binds the claims for a pick of a node. Returns the nodes whose verdict changes.
    pub fn pick(&mut self, node: u32, deadline: &Deadline<'_>) -> Result<Vec<u32>, Stopped> {
        let all = || 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let is_first = !std::mem::replace(&mut self.has_picks, true);
        if self.is_once {
            return Ok(all().filter(|_| is_first).collect());
        }
        let Some(node) = self.storage.node(self.slots[node as usize]) else {
            return Ok(Vec::new());
        };
        let within = BindingIn {
            storage: self.storage.objects(),
            deadline,
        };
        let bindings = self.waiting.bind(node, within)?.unwrap_or_default();
        let changes_all = self.waiting.hold(&bindings, node.name());
        let near = match changes_all {
            true => None,
            false => nodes_of(&bindings, self.storage.objects(), &self.listed),
        };
        let near = near.unwrap_or_else(|| all().collect());
        let mut changed = Vec::new();
        for at in near {
            let node = self.storage.node(self.slots[at as usize]);
            let admits = match node {
                Some(node) => self.waiting.admit(node, within)?,
                None => false,
            };
            if admits != self.admitted.contains(at as usize) {
                self.admitted.set(at as usize, admits);
                changed.push(at);
            }
        }
        Ok(changed)
    }
}

/// The nodes that may reach volumes that were just taken; `None` for all.
fn nodes_of(
    taken: &[Binding],
    storage: &StorageObjects,
    listed: &HashMap<usize, Vec<u32>>,
) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    for taken in taken.iter().flatten() {
        let free = storage.free(taken.volume.class());
        let free = free.filter(|_| taken.volume.spec().claim_ref.is_none())?;
        for list in free.lists_with(&taken.volume) {
            nodes.extend(listed.get(&list.id()).into_iter().flatten());
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    Some(nodes)
}
