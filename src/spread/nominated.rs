//! The nominated pods that count for a question (`docs/semantics.md`, "Nominated
//! pods"). Nodes that have any are judged one by one, as if these were there.

use std::collections::BTreeMap;

use super::active::Active;
use crate::account::heap;
use crate::proto::v1;
use crate::snapshot::{Nodes, NominatedPod, Partition, ReadView, Slot, priority_of};

/// What decides which nominated pods a question yields to.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// Name of the pod; empty while it has none.
    name: String,
    /// Uid of the pod; empty when unknown.
    uid: String,
    /// Priority of the pod.
    priority: i32,
    /// Whether its priority is that of a class, which is not known.
    pub has_unknown_priority: bool,
}

/// The nominated pods that count for a question.
#[derive(Default)]
pub struct Nominated<'a> {
    on: BTreeMap<Slot, NominatedOn<'a>>,
}

/// Those of one node. There is at least one.
#[derive(Default)]
pub struct NominatedOn<'a> {
    /// Those in the namespace of the question: constraints count no others.
    own: Vec<&'a NominatedPod>,
    /// Those in other namespaces, which take room too.
    others: Vec<&'a NominatedPod>,
}

impl Incoming {
    /// That of a pod.
    pub fn of(metadata: &v1::ObjectMeta, spec: &v1::PodSpec) -> Self {
        Self {
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            priority: priority_of(spec),
            has_unknown_priority: spec.priority.is_none() && !spec.priority_class_name.is_empty(),
        }
    }

    /// Its name; empty if it has none yet.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its uid; empty if it is yet to be created.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns what it takes on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap::block(self.name.len()) + heap::block(self.uid.len())
    }
}

impl<'a> Nominated<'a> {
    /// Those that count for a pod in a namespace: of at least its priority, without
    /// the pod itself.
    pub fn of(namespace: &str, incoming: &Incoming, read_view: &ReadView<'a>) -> Self {
        let mut on: BTreeMap<Slot, NominatedOn<'a>> = BTreeMap::new();
        for (slot, pod) in read_view.nominated() {
            let is_itself = pod.is(namespace, &incoming.name, &incoming.uid);
            if pod.priority < incoming.priority || is_itself {
                continue;
            }
            let here = on.entry(slot).or_default();
            match *pod.namespace == *namespace {
                true => here.own.push(pod),
                false => here.others.push(pod),
            }
        }
        Self { on }
    }

    /// Those of a node; `None` without any.
    pub fn on(&self, slot: Slot) -> Option<&NominatedOn<'a>> {
        self.on.get(&slot)
    }

    /// The nodes that have any.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.on.keys().copied()
    }

    /// Returns where the nodes that have any are among others.
    pub fn places(&self, slots: &[Slot], nodes: &Nodes) -> Vec<usize> {
        if self.is_empty() {
            return Vec::new();
        }
        if nodes.is_order(slots) {
            let name = |slot: &Slot| nodes.name(*slot);
            let place = |slot: Slot| slots.binary_search_by_key(&nodes.name(slot), name).ok();
            return self.slots().filter_map(place).collect();
        }
        let places = slots.iter().enumerate();
        let places = places.filter(|(_, slot)| self.on(**slot).is_some());
        places.map(|(at, _)| at).collect()
    }

    /// Returns whether any of them keep other pods away.
    pub fn keep_away(&self) -> bool {
        let mut pods = self.on.values().flat_map(NominatedOn::pods);
        pods.any(|pod| pod.keeps_away.is_some())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.on.is_empty()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.on.values().map(NominatedOn::count).sum()
    }
}

impl<'a> NominatedOn<'a> {
    /// All of them.
    pub fn pods(&self) -> impl Iterator<Item = &'a NominatedPod> {
        self.own.iter().chain(&self.others).copied()
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.own.len() + self.others.len()
    }

    /// Returns how many of them a constraint counts on their node, if it counts in that. Unlike
    /// pods that are on a node they are counted by an empty selector too, and while
    /// they terminate: kube-scheduler does so.
    pub fn counted_by(&self, active: &Active, slot: Slot, partition: &Partition) -> u32 {
        if !partition.member(slot).is_some() {
            return 0;
        }
        let matches = |pod: &&&NominatedPod| active.selector.matches_labels(&pod.labels);
        u32::try_from(self.own.iter().filter(matches).count()).unwrap_or(u32::MAX)
    }
}
