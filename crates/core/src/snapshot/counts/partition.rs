//! The nodes that a constraint counts in, by domain.

use std::sync::{Arc, OnceLock};

use fixedbitset::FixedBitSet;

use super::partitions::next_number;
use super::topology;
use super::topology::{DomainKey, Topology};
use crate::matching::{Effect, NodeAffinity, Selector, Taint, Tolerations};
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::nodes::{NodeRef, Nodes};
use crate::snapshot::objects::slots::Slot;

/// The taint of a cordoned node; a pod that tolerates it may go there.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// The rules that decide which nodes a constraint counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Eligibility {
    /// Topology keys that a node must have, all of them.
    pub required_keys: Box<[Arc<str>]>,
    /// The affinity that a node's labels must match; `None` ignores them.
    pub affinity: Option<NodeAffinity>,
    /// The tolerations for a node's taints; `None` ignores them.
    pub tolerations: Option<Tolerations>,
    /// The tolerations for a cordon of a node; `None` ignores it.
    pub cordon_tolerations: Option<Tolerations>,
}

/// The key of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key that groups the nodes into domains.
    pub topology: DomainKey,
    /// True if a node without the topology key is in the domain of the empty value rather than in
    /// none.
    pub missing_is_empty: bool,
    /// The rules for eligible nodes.
    pub eligibility: Eligibility,
}

/// The number of the members of a partition: a partition whose nodes move gets another one. It is
/// never given out twice, so counts of former members are not mistaken for those of the present
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionId(u64);

impl PartitionId {
    /// A number that no other partition has.
    fn next() -> Self {
        Self(next_number())
    }
}

/// The eligible nodes by domain of a topology.
#[derive(Debug, Clone)]
pub struct Partition {
    /// The number of its present members.
    id: PartitionId,
    key: Arc<Key>,
    /// The domain of each eligible node, by slot.
    members: Vec<DomainId>,
    eligible: Vec<bool>,
    /// The eligible nodes in node order, computed when first needed, and again after a change.
    eligible_in_order: OnceLock<FixedBitSet>,
    eligible_total: usize,
    /// The number of eligible nodes, by domain. A value without eligible nodes is no domain.
    eligible_nodes: Vec<u32>,
    domain_count: usize,
}

impl Key {
    /// The eligible nodes that `topology` puts into a domain.
    pub fn of(topology: DomainKey, eligibility: Eligibility) -> Self {
        Self {
            topology,
            missing_is_empty: false,
            eligibility,
        }
    }

    /// All nodes that `topology` puts into a domain.
    pub fn everywhere(topology: DomainKey) -> Self {
        Self::of(topology, Eligibility::default())
    }
}

impl Eligibility {
    /// Returns whether a node is eligible (`docs/semantics.md`, "Filter" and "Node
    /// checks").
    pub fn admits(&self, node: NodeRef<'_>) -> bool {
        self.has_required_keys(node)
            && self.admits_affinity(node)
            && self.admits_taints(node)
            && self.admits_cordon(node)
    }

    /// Returns whether a node has all required topology keys.
    pub fn has_required_keys(&self, node: NodeRef<'_>) -> bool {
        let mut keys = self.required_keys.iter();
        keys.all(|key| node.label_text(key).is_some())
    }

    /// Returns whether a node is eligible by its labels and its name.
    pub fn admits_affinity(&self, node: NodeRef<'_>) -> bool {
        let affinity = self.affinity.as_ref();
        affinity.is_none_or(|it| it.matches(node.name(), |key| node.label_text(key)))
    }

    /// Returns the number of steps in which a node is checked.
    pub fn steps_per_node(&self) -> usize {
        let affinity = self.affinity.as_ref();
        2 + self.required_keys.len() + affinity.map_or(0, NodeAffinity::per_node)
    }

    /// Returns whether a node is eligible by its taints.
    pub fn admits_taints(&self, node: NodeRef<'_>) -> bool {
        let tolerations = self.tolerations.as_ref();
        tolerations.is_none_or(|t| t.tolerate_all(node.taints()))
    }

    /// Returns whether a node would be eligible by its taints without its cordon. A cordoned node
    /// also has a taint.
    pub fn admits_taints_uncordoned(&self, node: NodeRef<'_>) -> bool {
        let of_others = |taint: &&Taint| taint.repels() && &*taint.key != UNSCHEDULABLE_TAINT;
        let mut taints = node.taints().iter().filter(of_others);
        let tolerations = self.tolerations.as_ref();
        tolerations.is_none_or(|t| taints.all(|it| t.tolerate(&it.key, &it.value, it.effect)))
    }

    /// Returns whether a node is eligible by its cordon, or its lack of one.
    pub fn admits_cordon(&self, node: NodeRef<'_>) -> bool {
        let tolerated = |tolerations: &Tolerations| {
            tolerations.tolerate(UNSCHEDULABLE_TAINT, "", Effect::NoSchedule)
        };
        !node.unschedulable() || self.cordon_tolerations.as_ref().is_none_or(tolerated)
    }
}

impl Partition {
    /// Groups the eligible nodes by domain.
    pub fn of(
        key: Key,
        topology: &Topology,
        nodes: &Nodes,
        deadline: &Deadline<'_>,
    ) -> Result<Self, Stopped> {
        let eligibility = &key.eligibility;
        let each = eligibility.steps_per_node();
        let mut eligible: Vec<Slot> = Vec::new();
        for slot in nodes.order() {
            deadline.step(each)?;
            if nodes
                .get(*slot)
                .is_some_and(|node| eligibility.admits(node))
            {
                eligible.push(*slot);
            }
        }
        let mut partition = Self::empty(key, topology, nodes.slot_count());
        for slot in eligible {
            partition.set(slot, true, topology);
        }
        Ok(partition)
    }

    /// A partition without nodes, with room for the nodes of this many slots.
    pub fn empty(key: Key, topology: &Topology, slots: usize) -> Self {
        Self {
            id: PartitionId::next(),
            key: Arc::new(key),
            members: vec![DomainId::NONE; slots],
            eligible: vec![false; slots],
            eligible_in_order: OnceLock::new(),
            eligible_total: 0,
            eligible_nodes: vec![0; topology.id_bound()],
            domain_count: 0,
        }
    }

    /// Follows changes of nodes that `topology` has followed already. If members move, the partition
    /// gets another number.
    pub fn update(&mut self, changed: &[(Slot, Option<NodeRef<'_>>)], topology: &Topology) {
        self.eligible_in_order.take();
        if self.eligible_nodes.len() < topology.id_bound() {
            self.eligible_nodes.resize(topology.id_bound(), 0);
        }
        let mut moved = false;
        for (slot, node) in changed {
            if self.members.len() <= slot.index() {
                self.members.resize(slot.index() + 1, DomainId::NONE);
                self.eligible.resize(slot.index() + 1, false);
            }
            let admits = node.is_some_and(|node| self.key.eligibility.admits(node));
            moved |= self.set(*slot, admits, topology);
        }
        if moved {
            self.id = PartitionId::next();
        }
    }

    /// Sets whether a node is eligible. Returns whether it moved.
    fn set(&mut self, slot: Slot, eligible: bool, topology: &Topology) -> bool {
        let to = match topology.domain_of(slot) {
            _ if !eligible => DomainId::NONE,
            DomainId::NONE if self.key.missing_is_empty => DomainId::EMPTY,
            domain => domain,
        };
        let was = std::mem::replace(&mut self.eligible[slot.index()], eligible);
        self.eligible_total = self.eligible_total + usize::from(eligible) - usize::from(was);
        let from = std::mem::replace(&mut self.members[slot.index()], to);
        if from == to {
            return false;
        }
        if from.is_some() {
            let nodes = &mut self.eligible_nodes[from.index()];
            *nodes -= 1;
            self.domain_count -= usize::from(*nodes == 0);
        }
        if to.is_some() {
            let nodes = &mut self.eligible_nodes[to.index()];
            *nodes += 1;
            self.domain_count += usize::from(*nodes == 1);
        }
        true
    }

    /// The number of the partition, which it has as long as its members stay.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Returns the number of slots of nodes that it has a place for.
    pub fn slots(&self) -> usize {
        self.members.len()
    }

    /// The key of the partition: the topology and the rules for eligible nodes.
    pub fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// The domain that a node is a member of; [`DomainId::NONE`] when it is
    /// not eligible or lacks the key.
    pub fn member(&self, slot: Slot) -> DomainId {
        *self.members.get(slot.index()).unwrap_or(&DomainId::NONE)
    }

    /// Returns whether a node is eligible, with or without the key.
    pub fn is_eligible(&self, slot: Slot) -> bool {
        *self.eligible.get(slot.index()).unwrap_or(&false)
    }

    /// Returns the number of eligible nodes, with or without the key.
    pub fn eligible_total(&self) -> usize {
        self.eligible_total
    }

    /// Returns which of `nodes` are eligible, in node order.
    pub fn eligible_in_order(&self, nodes: &Nodes) -> &FixedBitSet {
        self.eligible_in_order
            .get_or_init(|| topology::bits(nodes.order(), |slot| self.is_eligible(*slot)))
    }

    /// Returns the number of eligible nodes in a domain.
    pub fn eligible_nodes(&self, domain: DomainId) -> u32 {
        *self.eligible_nodes.get(domain.index()).unwrap_or(&0)
    }

    /// Returns the number of eligible nodes in each domain; domains past its end have none.
    pub fn nodes_in(&self) -> &[u32] {
        &self.eligible_nodes
    }

    /// The domains: those with an eligible node.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> {
        let all = self.eligible_nodes.iter().enumerate();
        all.filter(|(_, nodes)| **nodes > 0)
            .map(|(i, _)| DomainId::at(i))
    }

    /// Returns the number of domains.
    pub fn domain_count(&self) -> usize {
        self.domain_count
    }

    /// One more than the largest number of a domain.
    pub fn id_bound(&self) -> usize {
        self.eligible_nodes.len()
    }
}

/// The number of a domain: a value of a topology key. Not reused while its
/// topology lives, so that counts by number stay meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(u32);

impl DomainId {
    /// The number that means no domain.
    pub const NONE: Self = Self(u32::MAX);
    /// The domain of the empty value, in topologies of a label.
    pub const EMPTY: Self = Self(0);

    /// Returns the number as an index into an array with one element per domain.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns whether this is a domain.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The domain of an index.
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 domains"))
    }
}

/// A partition and its topology.
#[derive(Debug, Clone)]
pub struct PartitionInUse {
    /// The eligible nodes by domain.
    pub partition: Arc<Partition>,
    /// The domains of all nodes, eligible or not.
    pub topology: Arc<Topology>,
}

impl PartitionInUse {
    /// The number of the partition.
    pub fn id(&self) -> PartitionId {
        self.partition.id()
    }
}

/// A query for the number of pods that match `selector` in each domain of a partition of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Selects the pods that are counted.
    pub selector: &'a Selector,
    /// The nodes that are counted in, and their domains.
    pub partition: &'a Key,
}
