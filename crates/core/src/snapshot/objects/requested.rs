//! The requests of the pods of all namespaces on each node, and their terms about other pods.

use std::sync::Arc;

use super::blocks::Blocks;
use super::pod_terms::{OwnedTerms, TermTable};
use super::requirements::ReadRequirements;
use super::slots::Slot;
use super::storage_use::{PodUse, StorageUse};
use crate::matching::{PodTerm, Requested, Requests};
use crate::snapshot::deadline::{Deadline, Stopped};

/// The number of nodes in a block: decisions read copies, and a change of a node then copies its
/// block.
const BLOCK: usize = 64;

/// The requests of the pods on each node, by slot. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct RequestedTable {
    nodes: Blocks<NodePods, BLOCK>,
    anti_affinity: Arc<TermTable>,
    scored_terms: Arc<TermTable>,
    storage: Arc<StorageUse>,
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

/// The room that a pod takes.
#[derive(Debug)]
struct TakenRoom {
    requests: Option<Arc<Requests>>,
    priority: i32,
}

/// Pods that come to nodes and leave them.
#[derive(Debug, Default)]
pub struct Shifts {
    /// The requests of pods that begin or cease to take room on a node, in order.
    room: Vec<Shift<TakenRoom>>,
    /// The terms by which these pods keep others away.
    keeps_away: Vec<Shift<OwnedTerms>>,
    /// The terms by which kube-scheduler scores nodes for other pods.
    scored: Vec<Shift<OwnedTerms>>,
    /// The storage that they use.
    storage: Vec<Shift<PodUse>>,
    /// The nodes that pods begin to name, or cease to, in order; true where they begin.
    names: Vec<(Slot, bool)>,
}

/// A property of a pod that comes to a node or leaves it.
#[derive(Debug)]
struct Shift<T> {
    slot: Slot,
    of: T,
    comes: bool,
}

impl Shifts {
    /// Records that a pod of this namespace and name comes to a node with its requirements, or leaves
    /// it.
    pub fn note(
        &mut self,
        slot: Slot,
        (namespace, name): (&str, &str),
        read: Option<&ReadRequirements>,
        comes: bool,
    ) {
        let of = TakenRoom {
            requests: read.and_then(|read| read.requests.clone()),
            priority: read.map_or(0, |read| read.priority),
        };
        self.room.push(Shift { slot, of, comes });
        let Some(read) = read else { return };
        let terms = |terms: &Arc<[PodTerm]>| {
            let of = OwnedTerms {
                terms: Arc::clone(terms),
                namespace: namespace.into(),
            };
            Shift { slot, of, comes }
        };
        self.keeps_away.extend(read.keeps_away.as_ref().map(terms));
        self.scored.extend(read.scored.as_ref().map(terms));
        self.storage.extend(read.storage.as_ref().map(|used| {
            let of = PodUse {
                used: Arc::clone(used),
                namespace: namespace.into(),
                name: name.into(),
            };
            Shift { slot, of, comes }
        }));
    }

    /// Records that a pod ceases to name one node and begins to name another.
    pub fn note_move(&mut self, from: Option<Slot>, to: Option<Slot>) {
        if from != to {
            self.names.extend(to.map(|slot| (slot, true)));
            self.names.extend(from.map(|slot| (slot, false)));
        }
    }

    /// Applies the shifts to a table, which is copied if it is shared.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn apply_to(
        &self,
        table: &mut Arc<RequestedTable>,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        match self.room.is_empty() && self.names.is_empty() {
            true => Ok(()),
            false => Arc::make_mut(table).apply(self, deadline),
        }
    }
}

impl NodePods {
    /// Adds the room of a pod that comes, or takes away that of one that leaves.
    fn shift(&mut self, of: &TakenRoom, comes: bool) {
        let shift = |sum: &mut Requested| match comes {
            true => sum.add(of.requests.as_deref()),
            false => sum.remove(of.requests.as_deref()),
        };
        shift(&mut self.requested);
        if of.priority == 0 {
            return;
        }
        let all = &mut self.of_priorities;
        let place = all.iter().position(|it| it.priority == of.priority);
        let place = place.unwrap_or_else(|| {
            all.push(RequestedOfPriority {
                priority: of.priority,
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

    fn apply(&mut self, shifts: &Shifts, deadline: &Deadline<'_>) -> Result<(), Stopped> {
        for (slot, begins) in &shifts.names {
            let pods = &mut self.node(*slot).pods;
            *pods = match begins {
                true => *pods + 1,
                false => *pods - 1,
            };
        }
        for Shift { slot, of, comes } in &shifts.keeps_away {
            deadline.step(of.terms.len())?;
            Arc::make_mut(&mut self.anti_affinity).shift(*slot, of, *comes);
        }
        for Shift { slot, of, comes } in &shifts.scored {
            deadline.step(of.terms.len())?;
            Arc::make_mut(&mut self.scored_terms).shift(*slot, of, *comes);
        }
        for Shift { slot, of, comes } in &shifts.storage {
            deadline.step(of.used.claims.len() + of.used.disks.len())?;
            Arc::make_mut(&mut self.storage).shift(*slot, of, *comes);
        }
        for shift in &shifts.room {
            deadline.step(1 + shift.of.requests.as_ref().map_or(0, |it| it.rare_len()))?;
            self.node(shift.slot).shift(&shift.of, shift.comes);
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
