//! The values that nodes have for a topology key, numbered; also in node order, to judge all nodes at
//! once: a bit per node, 64 of them in a word.

use std::sync::{Arc, OnceLock};

use fixedbitset::FixedBitSet;
use hashbrown::HashMap;

use super::partition::DomainId;
use crate::snapshot::objects::nodes::{NodeRef, Nodes};
use crate::snapshot::objects::slots::Slot;

/// The number of unused numbers that is never too many.
const MIN_OVERGROWN: usize = 64;

/// The key that groups nodes into domains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DomainKey {
    /// The values of a label.
    Label(Arc<str>),
    /// Every node is a domain of its own.
    Node,
}

/// For each node, its value of a topology key.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// The label; `None` when every node is a domain of its own.
    label: Option<Box<str>>,
    /// The domain of each node, by slot; [`DomainId::NONE`] without the label or the node.
    domain_of: Vec<DomainId>,
    /// The number of nodes in each domain, eligible or not.
    nodes_in: Vec<u32>,
    /// The number of nodes with the label.
    keyed: usize,
    values: Vec<Arc<str>>,
    by_value: HashMap<Arc<str>, DomainId>,
    /// The layout, computed when first needed, and again after a change.
    layout: OnceLock<NodeLayout>,
    /// The order of the values, computed like `layout`; a change that brings no new value leaves
    /// it.
    ascending: OnceLock<Ascending>,
}

/// The numbers of all values, ascending by value.
#[derive(Debug, Clone)]
pub enum Ascending {
    /// The numbers ascend like the values.
    ByNumber(usize),
    /// The numbers in the order of their values.
    Listed(Vec<DomainId>),
}

impl Topology {
    /// Numbers the values that nodes have.
    pub fn of(key: &DomainKey, nodes: &Nodes) -> Self {
        let mut topology = Self {
            domain_of: vec![DomainId::NONE; nodes.slot_count()],
            ..Self::default()
        };
        match key {
            DomainKey::Node => {
                for slot in nodes.order() {
                    topology.put(*slot, DomainId::at(slot.index()));
                }
            }
            DomainKey::Label(label) => topology.number_values(label, nodes),
        }
        topology
    }

    fn number_values(&mut self, label: &str, nodes: &Nodes) {
        self.label = Some(label.into());
        self.number("");
        let Some(key) = nodes.symbols().find(label) else {
            return;
        };
        // Values are looked up by symbol here: a number, not a text.
        let mut by_symbol = vec![DomainId::NONE; nodes.symbols().bound()];
        for slot in nodes.order() {
            let value = nodes.get(*slot).and_then(|node| node.label(key));
            let Some(value) = value else { continue };
            let known = &mut by_symbol[value.index()];
            if !known.is_some() {
                *known = self.number(nodes.symbols().text(value));
            }
            let domain = *known;
            self.put(*slot, domain);
        }
    }

    /// Puts a node into a domain, or removes it from all.
    fn put(&mut self, slot: Slot, to: DomainId) {
        let from = std::mem::replace(&mut self.domain_of[slot.index()], to);
        if from.is_some() {
            self.nodes_in[from.index()] -= 1;
            self.keyed -= 1;
        }
        if to.is_some() {
            if self.nodes_in.len() <= to.index() {
                self.nodes_in.resize(to.index() + 1, 0);
            }
            self.nodes_in[to.index()] += 1;
            self.keyed += 1;
        }
    }

    /// The number of a value, given out if needed.
    fn number(&mut self, value: &str) -> DomainId {
        if let Some(id) = self.by_value.get(value) {
            return *id;
        }
        let id = DomainId::at(self.values.len());
        let value: Arc<str> = value.into();
        self.values.push(Arc::clone(&value));
        self.by_value.insert(value, id);
        self.ascending.take();
        id
    }

    /// Applies a change of a node; `None` for a deleted one.
    pub fn update(&mut self, slot: Slot, node: Option<NodeRef<'_>>) {
        self.layout.take();
        if self.label.is_none() {
            self.ascending.take();
        }
        if self.domain_of.len() <= slot.index() {
            self.domain_of.resize(slot.index() + 1, DomainId::NONE);
        }
        let domain = match &self.label {
            Some(label) => {
                let value = node.and_then(|node| node.label_text(label));
                value.map(|value| self.number(value))
            }
            None => node.map(|_| DomainId::at(slot.index())),
        };
        self.put(slot, domain.unwrap_or(DomainId::NONE));
    }

    /// The domain of a node; [`DomainId::NONE`] when it lacks the key.
    pub fn domain_of(&self, slot: Slot) -> DomainId {
        *self.domain_of.get(slot.index()).unwrap_or(&DomainId::NONE)
    }

    /// Returns whether most numbers have values without nodes. Otherwise names of nodes that come
    /// and go would pile up.
    pub fn is_overgrown(&self) -> bool {
        self.values.len() > MIN_OVERGROWN + 2 * self.keyed
    }

    /// Returns the number of nodes with the topology key.
    pub fn keyed(&self) -> usize {
        self.keyed
    }

    /// Returns the number of nodes in each domain, eligible or not; domains past its end have none.
    pub fn nodes_in(&self) -> &[u32] {
        &self.nodes_in
    }

    /// Returns how many numbers were given out; for single nodes they are the slots.
    pub fn id_bound(&self) -> usize {
        if self.label.is_some() {
            self.values.len()
        } else {
            self.domain_of.len()
        }
    }

    /// The value of a domain; for single nodes the name.
    pub fn value<'a>(&'a self, domain: DomainId, nodes: &'a Nodes) -> &'a str {
        match self.label {
            Some(_) => &self.values[domain.index()],
            None => nodes.name(Slot::at(domain.index())),
        }
    }

    /// The domains of `nodes` in node order.
    pub fn layout(&self, nodes: &Nodes) -> &NodeLayout {
        self.layout.get_or_init(|| {
            let slots = nodes.order().iter();
            let domains = slots.map(|slot| self.domain_of(*slot)).collect();
            NodeLayout::of(domains, self.id_bound())
        })
    }

    /// All numbers, ascending by value.
    pub fn ascending(&self, nodes: &Nodes) -> &Ascending {
        self.ascending.get_or_init(|| {
            let mut all: Vec<DomainId> = match self.label {
                Some(_) => (0..self.values.len()).map(DomainId::at).collect(),
                None => {
                    let slots = nodes.order().iter();
                    slots.map(|slot| DomainId::at(slot.index())).collect()
                }
            };
            if self.label.is_some() {
                // A stable sort is linear where the list is already sorted.
                all.sort_by_key(|id| &self.values[id.index()]);
            }
            let by_number = |(i, id): (usize, &DomainId)| id.index() == i;
            if all.iter().enumerate().all(by_number) {
                Ascending::ByNumber(all.len())
            } else {
                Ascending::Listed(all)
            }
        })
    }
}

/// The number of domains up to which the nodes of each are kept as bits.
const FEW_DOMAINS: usize = 64;

/// The number of bits that are computed at once.
const WORD: usize = usize::BITS as usize;

/// The domains of all nodes, in node order.
#[derive(Debug, Clone)]
pub struct NodeLayout {
    domains: Vec<DomainId>,
    /// The nodes that have the topology key.
    keyed: FixedBitSet,
    shape: NodeShape,
}

/// The pattern of the nodes' domains, which makes checking all nodes cheap.
#[derive(Debug, Clone)]
enum NodeShape {
    /// There are few domains: the nodes of each, by domain.
    Few(Vec<FixedBitSet>),
    /// The numbers of the nodes' domains go up by one from node to node, from this number.
    Consecutive(usize),
    /// Neither of the two.
    Mixed,
}

impl NodeLayout {
    /// Lays out the domains of all nodes, in node order; all of them are below
    /// `id_bound`.
    pub fn of(domains: Vec<DomainId>, id_bound: usize) -> Self {
        Self {
            keyed: bits(&domains, |domain| domain.is_some()),
            shape: NodeShape::of(&domains, id_bound),
            domains,
        }
    }

    /// The domain of each node; [`DomainId::NONE`] when it lacks the key.
    pub fn domains(&self) -> &[DomainId] {
        &self.domains
    }

    /// The nodes that have the topology key.
    pub fn keyed(&self) -> &FixedBitSet {
        &self.keyed
    }

    /// The counts of all nodes' domains in node order, if `counts`, by domain,
    /// has them in a row.
    pub fn in_a_row<'c>(&self, counts: &'c [u32]) -> Option<&'c [u32]> {
        match self.shape {
            NodeShape::Consecutive(first) => counts.get(first..first + self.domains.len()),
            NodeShape::Few(_) | NodeShape::Mixed => None,
        }
    }

    /// The nodes whose domain has at most `most` in `counts`, which is by
    /// domain; domains past its end have none.
    pub fn at_most(&self, counts: &[u32], most: u32) -> FixedBitSet {
        if let Some(counts) = self.in_a_row(counts) {
            return bits(counts, |count| *count <= most);
        }
        let count = |domain: usize| counts.get(domain).copied().unwrap_or(0);
        let NodeShape::Few(members) = &self.shape else {
            return bits(&self.domains, |domain| {
                domain.is_some() && count(domain.index()) <= most
            });
        };
        let mut admitted = FixedBitSet::with_capacity(self.domains.len());
        for (domain, nodes) in members.iter().enumerate() {
            if count(domain) <= most {
                admitted.union_with(nodes);
            }
        }
        admitted
    }
}

impl NodeShape {
    fn of(domains: &[DomainId], id_bound: usize) -> Self {
        if id_bound <= FEW_DOMAINS {
            let mut members = vec![FixedBitSet::with_capacity(domains.len()); id_bound];
            let keyed = domains.iter().enumerate();
            for (node, domain) in keyed.filter(|(_, domain)| domain.is_some()) {
                members[domain.index()].insert(node);
            }
            return Self::Few(members);
        }
        let first = domains.first().map_or(0, |domain| domain.index());
        let follows = |(node, domain): (usize, &DomainId)| domain.index() == first + node;
        if domains.iter().enumerate().all(follows) {
            Self::Consecutive(first)
        } else {
            Self::Mixed
        }
    }
}

/// A bit for each of `values`.
pub fn bits<T>(values: &[T], is_set: impl Fn(&T) -> bool) -> FixedBitSet {
    let word = |values: &[T]| {
        let mut set = [false; WORD];
        for (set, value) in set.iter_mut().zip(values) {
            *set = is_set(value);
        }
        pack(&set)
    };
    // The rest is separate, so that the compiler knows the length of whole words.
    let (whole, rest) = values.as_chunks::<WORD>();
    let rest = (!rest.is_empty()).then(|| word(rest));
    let words = whole.iter().map(|values| word(values)).chain(rest);
    FixedBitSet::with_capacity_and_blocks(values.len(), words)
}

/// The bits of a word. A multiplication gathers eight bytes in the highest of
/// them, and lets the compiler compare many values at once: a fifth of the time
/// of a shift for each.
fn pack(set: &[bool; WORD]) -> usize {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = set.as_chunks::<8>();
    eights.iter().rev().fold(0, |word, eight| {
        let bytes = u64::from_le_bytes(eight.map(u8::from));
        word << 8 | (bytes.wrapping_mul(GATHER) >> 56) as usize
    })
}
