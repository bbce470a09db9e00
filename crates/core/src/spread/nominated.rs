//! The nominated pods that count for a question (`docs/semantics.md`, "Nominated pods"). Nodes with
//! nominated pods are judged one by one, as if these pods were on them.

use std::collections::BTreeMap;

use super::active::Active;
use crate::proto::v1;
use crate::snapshot::{Nodes, NominatedPod, Partition, ReadView, Slot, Stopped};

/// The facts about the incoming pod that decide which nominated pods count for it.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// Name of the pod; empty while it has none.
    pub name: String,
    /// Uid of the pod; empty while the pod does not exist, or when unknown.
    pub uid: String,
    /// Priority of the pod.
    pub priority: i32,
    /// True if the pod evicts no pods of a lower priority.
    pub never_preempts: bool,
    /// True if the pod names a priority class and its priority is not known.
    pub has_unknown_priority: bool,
}

/// The nominated pods that count for a question.
#[derive(Clone, Default)]
pub struct Nominated<'a> {
    on: BTreeMap<Slot, NominatedOn<'a>>,
}

/// The nominated pods of one node. There is at least one.
#[derive(Clone, Default)]
pub struct NominatedOn<'a> {
    /// The pods in the namespace of the question. Constraints count only these.
    own: Vec<&'a NominatedPod>,
    /// The pods in other namespaces. They take room like the others.
    others: Vec<&'a NominatedPod>,
}

impl Incoming {
    /// The facts about a pod.
    pub fn of(metadata: &v1::ObjectMeta, spec: &v1::PodSpec) -> Self {
        Self {
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy == "Never",
            has_unknown_priority: spec.priority.is_none() && !spec.priority_class_name.is_empty(),
        }
    }
}

impl<'a> Nominated<'a> {
    /// Returns the nominated pods that count for an incoming pod: those with at least its priority,
    /// except the pod itself.
    pub fn of(
        namespace: &str,
        incoming: &Incoming,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let mut on: BTreeMap<Slot, NominatedOn<'a>> = BTreeMap::new();
        for (slot, pod) in read_view.nominated()? {
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
        Ok(Self { on })
    }

    /// Returns the nominated pods of a node; `None` without any.
    pub fn on(&self, slot: Slot) -> Option<&NominatedOn<'a>> {
        self.on.get(&slot)
    }

    /// Returns the positions in `slots` of the nodes with nominated pods.
    pub fn places(&self, slots: &[Slot], nodes: &Nodes) -> Vec<usize> {
        if self.on.is_empty() {
            return Vec::new();
        }
        if nodes.is_order(slots) {
            let name = |slot: &Slot| nodes.name(*slot);
            let place = |slot: &Slot| slots.binary_search_by_key(&name(slot), name).ok();
            return self.on.keys().filter_map(place).collect();
        }
        let places = slots.iter().enumerate();
        let places = places.filter(|(_, slot)| self.on(**slot).is_some());
        places.map(|(at, _)| at).collect()
    }
}

impl<'a> NominatedOn<'a> {
    /// All nominated pods.
    pub fn pods(&self) -> impl Iterator<Item = &'a NominatedPod> {
        self.own.iter().chain(&self.others).copied()
    }

    /// Returns the number of nominated pods of the node.
    pub fn count(&self) -> usize {
        self.own.len() + self.others.len()
    }

    /// Returns how many of the node's nominated pods a constraint counts, if the node is in its
    /// partition. As in kube-scheduler, an empty selector counts nominated pods, and terminating
    /// ones count. Neither is true of pods that are on a node.
    pub fn counted_by(&self, active: &Active, slot: Slot, partition: &Partition) -> u32 {
        if !partition.member(slot).is_some() {
            return 0;
        }
        let matches = |pod: &&&NominatedPod| active.selector.matches_labels(&pod.labels);
        u32::try_from(self.own.iter().filter(matches).count()).unwrap_or(u32::MAX)
    }
}
