//! One shard of a snapshot: the pods of a namespace and what selects them.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;

use super::memory::{Measured, MemoryUse};
use crate::account::heap;
use crate::proto::v1;
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::counts::partitions::Moves;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::counts::views::Views;
use crate::snapshot::objects::kind::OwnerKind;
use crate::snapshot::objects::label_sets::LabelSets;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::owners::{Owner, Owners};
use crate::snapshot::objects::pod::{CompiledPod, PodRecord};
use crate::snapshot::objects::pod_table::PodTable;
use crate::snapshot::objects::requested::Shifts;
use crate::snapshot::objects::reservation::{Claim, Serial};
use crate::snapshot::objects::templates::Templates;

/// The pods and owners of one namespace. Copies share them until they change.
#[derive(Debug, Default)]
pub struct Namespace {
    pods: Arc<PodTable>,
    label_sets: Arc<LabelSets>,
    templates: Arc<Templates>,
    owners: Owners,
    views: RwLock<Views>,
    /// Set when the namespace became empty and was removed from the snapshot. A
    /// caller that still finds it has to look again.
    pub retired: bool,
}

impl Namespace {
    /// What its parts take on the heap before anything is in them.
    pub const EMPTY_BYTES: usize = heap::shared(size_of::<PodTable>())
        + heap::shared(size_of::<LabelSets>())
        + heap::shared(size_of::<Templates>())
        + Owners::EMPTY_BYTES;

    /// Creates or updates a valid pod; whether that made a difference. The
    /// node that it names has a slot.
    pub fn put_pod(
        &mut self,
        wire: &v1::Pod,
        compiled: &CompiledPod,
        nodes: &PartitionedNodes,
        shifts: &mut Shifts,
    ) -> bool {
        let metadata = wire
            .metadata
            .as_ref()
            .expect("a validated pod has metadata");
        let node_name = wire.spec.as_ref().map_or("", |s| &s.node_name);
        let node = nodes.nodes().slot(node_name);
        debug_assert!(node.is_some() || node_name.is_empty());
        let templates = Arc::make_mut(&mut self.templates);
        let template = templates.acquire(wire, compiled.requests.as_ref());
        let life = compiled.life.with_template(template);

        let place = self.pods.find(&metadata.name);
        let old = self.pods.pod(place);
        // Most pods keep their labels.
        let guess = old.map(|old| old.labels);
        let known = self.label_sets.find_near(guess, &metadata.labels);
        if old.is_some_and(|old| old.node == node && old.life == life && Some(old.labels) == known)
        {
            Arc::make_mut(&mut self.templates).release(life.template);
            return false;
        }
        let (labels, is_first) =
            Arc::make_mut(&mut self.label_sets).acquire(known, &metadata.labels);
        if is_first {
            self.views.get_mut().add_set(labels, &self.label_sets);
        }
        let record = PodRecord { labels, node, life };
        if let Some(slot) = node {
            nodes.nodes().add_pod(slot);
            if record.life.takes_room() {
                shifts.add(slot, self.templates.requests(record.life.template));
            }
            if record.life.counts() {
                Arc::make_mut(&mut self.label_sets).count(labels, slot);
                self.views.get_mut().add_pod(labels, slot, nodes);
            }
        }
        let old = Arc::make_mut(&mut self.pods).put(place, &metadata.name, record);
        self.forget(old, nodes, shifts);
        true
    }

    /// Whether it has this valid pod already.
    pub fn has_same_pod(&self, wire: &v1::Pod, compiled: &CompiledPod, nodes: &Nodes) -> bool {
        let name = wire.metadata.as_ref().map_or("", |metadata| &metadata.name);
        let old = self.pods.get(name);
        old.is_some_and(|old| {
            let node = wire.spec.as_ref().map_or("", |spec| &spec.node_name);
            let labels = wire.metadata.as_ref().map(|metadata| &metadata.labels);
            let known = labels.and_then(|l| self.label_sets.find_near(Some(old.labels), l));
            let template = self.templates.find(wire, compiled.requests.as_ref());
            let life = template.map(|template| compiled.life.with_template(template));
            old.node == nodes.slot(node)
                && Some(old.labels) == known
                && Some(&old.life) == life.as_ref()
        })
    }

    /// Deletes a pod, if it exists and `uid` is empty or its own. Returns
    /// whether that made a difference.
    pub fn remove_pod(
        &mut self,
        name: &str,
        uid: &str,
        nodes: &PartitionedNodes,
        shifts: &mut Shifts,
    ) -> bool {
        let meant = |pod: &PodRecord| uid.is_empty() || pod.life.uid() == uid;
        if !self.pods.get(name).is_some_and(meant) {
            return false;
        }
        let old = Arc::make_mut(&mut self.pods).remove(name);
        self.forget(old, nodes, shifts);
        true
    }

    fn forget(&mut self, pod: Option<PodRecord>, nodes: &PartitionedNodes, shifts: &mut Shifts) {
        let Some(pod) = pod else { return };
        if let Some(slot) = pod.node {
            if pod.life.takes_room() {
                shifts.remove(slot, self.templates.requests(pod.life.template));
            }
            if pod.life.counts() {
                Arc::make_mut(&mut self.label_sets).uncount(pod.labels, slot);
                self.views.get_mut().remove_pod(pod.labels, slot, nodes);
            }
            nodes.nodes().remove_pod(slot);
        }
        Arc::make_mut(&mut self.templates).release(pod.life.template);
        if Arc::make_mut(&mut self.label_sets).release(pod.labels) {
            let slots = self.label_sets.slot_count();
            self.views.get_mut().remove_set(pod.labels, slots);
        }
    }

    /// Creates or updates an owner; whether that made a difference.
    pub fn put_owner(&mut self, kind: OwnerKind, name: &str, owner: &Arc<Owner>) -> bool {
        self.owners.put(kind, name, owner)
    }

    /// Deletes an owner, if it exists and `uid` is empty or its own. Returns
    /// whether that made a difference.
    pub fn remove_owner(&mut self, kind: OwnerKind, name: &str, uid: &str) -> bool {
        self.owners.remove(kind, name, uid)
    }

    /// A copy with views, all of which follow changes on their own.
    pub fn with_views(&self) -> Self {
        let mut copy = self.clone();
        *copy.views.get_mut() = self.views.read().fork();
        copy
    }

    /// How many views count a pod, as it is and as it was.
    pub fn watching(&self, wire: &v1::Pod) -> usize {
        let views = self.views.read();
        let metadata = wire.metadata.as_ref();
        let old = metadata.and_then(|m| self.pods.get(&m.name));
        let new = metadata.and_then(|m| self.label_sets.find(&m.labels));
        let sets = old.map(|pod| pod.labels).into_iter().chain(new);
        sets.map(|set| views.watching(set)).sum()
    }

    /// How many views count the pod of a name.
    pub fn watching_named(&self, name: &str) -> usize {
        let old = self.pods.get(name);
        old.map_or(0, |pod| self.views.read().watching(pod.labels))
    }

    /// What its pods ask for.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// The distinct label sets of its pods.
    pub fn label_sets(&self) -> &LabelSets {
        &self.label_sets
    }

    /// The label sets, for tests that tamper with them.
    #[cfg(test)]
    pub fn label_sets_mut(&mut self) -> &mut LabelSets {
        Arc::make_mut(&mut self.label_sets)
    }

    /// Its views.
    pub fn views(&self) -> &RwLock<Views> {
        &self.views
    }

    /// Its views, to change them with the namespace.
    pub fn views_mut(&mut self) -> &mut Views {
        self.views.get_mut()
    }

    /// Brings its views up to date after nodes moved.
    pub fn follow(&mut self, moves: &[Moves], upkeep: &Upkeep) {
        let views = self.views.get_mut();
        views.change(upkeep, |views| views.follow(moves, &self.label_sets));
    }

    /// What selects its pods.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Its pods with their names, in no order.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &PodRecord)> {
        self.pods.iter()
    }

    /// How many pods it has.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Whether it has a pod of this name.
    pub fn has_pod(&self, name: &str) -> bool {
        self.pods.get(name).is_some()
    }

    /// Of these reservations, those that were confirmed for pods that are on
    /// nodes already.
    pub fn arrived(&self, claims: &[(Serial, &Claim)]) -> Vec<Serial> {
        let bound = |claim: &Claim| {
            let pod = self.pods.get(&claim.name);
            pod.is_some_and(|pod| pod.node.is_some() && claim.is_of(&claim.name, &pod.life.uid()))
        };
        let (named, unnamed): (Vec<_>, Vec<_>) = claims
            .iter()
            .copied()
            .partition(|(_, claim)| !claim.name.is_empty());
        let named = named.into_iter().filter(|(_, claim)| bound(claim));
        let mut arrived: Vec<Serial> = named.map(|(serial, _)| serial).collect();
        if !unnamed.is_empty() {
            // Pods are not kept by uid: one look at all of them.
            let bound = self.pods().filter(|(_, pod)| pod.node.is_some());
            let uids: HashSet<String> = bound.map(|(_, pod)| pod.life.uid()).collect();
            let here = unnamed
                .into_iter()
                .filter(|(_, claim)| uids.contains(&*claim.uid));
            arrived.extend(here.map(|(serial, _)| serial));
        }
        arrived
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.owners.is_empty()
    }

    /// The names of its pods, ascending.
    pub fn pod_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.pods.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    /// A pod for the wire, whole.
    pub fn pod_to_wire(&self, namespace: &str, name: &str, nodes: &Nodes) -> Option<v1::Pod> {
        let mut pod = self.counted_pod_to_wire(namespace, name, nodes)?;
        let template = self.pods.get(name)?.life.template;
        self.templates.fill(template, &mut pod);
        Some(pod)
    }

    /// A pod for the wire, without what it asks for: that is not counted.
    pub fn counted_pod_to_wire(
        &self,
        namespace: &str,
        name: &str,
        nodes: &Nodes,
    ) -> Option<v1::Pod> {
        let record = self.pods.get(name)?;
        let labels = self.label_sets.texts(record.labels);
        let metadata = v1::ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            ..Default::default()
        };
        let node_name = record.node.map_or("", |slot| nodes.name(slot));
        Some(record.life.to_wire(metadata, node_name))
    }

    /// How much its tables grow at once with this many more pods and texts.
    pub fn doubling(&self, pods: usize, texts: usize) -> usize {
        self.pods.doubling(pods)
            + self.label_sets.doubling(pods, texts)
            + self.templates.doubling(pods)
    }

    /// Its kept memory, including views, beside the measured one. Its name is
    /// not known here.
    pub fn measure(&self) -> Measured {
        let views = self.views.read();
        Measured {
            namespace: Box::default(),
            kept: MemoryUse {
                views: views.memory_bytes(),
                ..self.memory()
            },
            measured: MemoryUse {
                views: views.measured_bytes(),
                ..self.measured()
            },
        }
    }

    fn measured(&self) -> MemoryUse {
        MemoryUse {
            pods: self.pods.measured_bytes(),
            label_sets: self.label_sets.measured_bytes(),
            templates: self.templates.measured_bytes(),
            owners: self.owners.measured_bytes(),
            ..MemoryUse::default()
        }
    }

    /// What it takes in memory without its views, whose room is known.
    pub fn memory(&self) -> MemoryUse {
        MemoryUse {
            pods: self.pods.memory_bytes(),
            label_sets: self.label_sets.memory_bytes(),
            templates: self.templates.memory_bytes(),
            owners: self.owners.memory_bytes(),
            ..MemoryUse::default()
        }
    }
}

impl Clone for Namespace {
    fn clone(&self) -> Self {
        Self {
            pods: self.pods.clone(),
            label_sets: self.label_sets.clone(),
            templates: self.templates.clone(),
            owners: self.owners.clone(),
            views: RwLock::default(),
            retired: self.retired,
        }
    }
}
