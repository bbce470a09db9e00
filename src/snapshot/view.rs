//! What one kind of question needs: the domains of a topology key over the
//! nodes that are eligible, and how many matching pods count in each.

use std::collections::HashMap;

use super::namespace::Namespace;
use super::nodes::{NodeRef, Nodes, Slot};
use super::symbols::Symbol;
use crate::matching::{NodeAffinity, Selector, Tolerations};

/// Which nodes a constraint looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Eligibility<'a> {
    /// Topology keys that a node must have, all of them.
    pub required_keys: Box<[&'a str]>,
    /// What a node's labels must match; `None` ignores them.
    pub affinity: Option<&'a NodeAffinity>,
    /// What must tolerate a node's taints; `None` ignores them.
    pub tolerations: Option<&'a Tolerations>,
}

/// A question: the domains of `topology_key` over the eligible nodes, with
/// the pods in each that match `selector`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query<'a> {
    /// Which pods are counted.
    pub selector: &'a Selector,
    /// Label key of nodes whose values are the domains.
    pub topology_key: &'a str,
    /// Whether a node without the key is in the domain of the empty value
    /// rather than in none.
    pub missing_is_empty: bool,
    /// Which nodes are looked at.
    pub eligibility: Eligibility<'a>,
}

/// The number of a domain of a topology key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(u32);

/// The answer to a [`Query`].
#[derive(Debug)]
pub struct View<'a> {
    nodes: &'a Nodes,
    /// Domain of each slot; `None` without the key or the node.
    of_slot: Vec<Option<DomainId>>,
    domains: Vec<Domain<'a>>,
}

/// A value of a topology key and what counts in it.
#[derive(Debug, Clone, Copy)]
pub struct Domain<'a> {
    /// The value.
    pub value: &'a str,
    /// Eligible nodes with it. A value without any is no domain.
    pub eligible_nodes: u32,
    /// Matching pods on those nodes.
    pub matching_pods: u32,
}

impl DomainId {
    /// As an index into an array with one element per domain.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl<'a> View<'a> {
    /// Answers a query.
    pub fn of(query: &Query<'_>, nodes: &'a Nodes, namespace: &Namespace) -> Self {
        let mut view = Self {
            nodes,
            of_slot: vec![None; nodes.slot_count()],
            domains: Vec::new(),
        };
        view.find_domains(query);
        let eligible = eligible_slots(&query.eligibility, nodes);
        for slot in &eligible {
            if let Some(domain) = view.domain_mut(*slot) {
                domain.eligible_nodes += 1;
            }
        }
        let mut is_eligible = vec![false; nodes.slot_count()];
        eligible
            .iter()
            .for_each(|slot| is_eligible[slot.index()] = true);
        for (slot, pods) in namespace.label_sets().counts(query.selector) {
            if is_eligible[slot.index()]
                && let Some(domain) = view.domain_mut(slot)
            {
                domain.matching_pods += pods;
            }
        }
        view
    }

    fn find_domains(&mut self, query: &Query<'_>) {
        let nodes = self.nodes;
        let key = nodes
            .symbols()
            .find(query.topology_key)
            .unwrap_or(Symbol::ABSENT);
        let mut by_value: HashMap<&str, DomainId> = HashMap::new();
        for slot in nodes.order() {
            let Some(node) = nodes.get(*slot) else {
                continue;
            };
            let value = match node.label(key) {
                Some(value) => nodes.symbols().text(value),
                None if query.missing_is_empty => "",
                None => continue,
            };
            let domains = &mut self.domains;
            let id = *by_value.entry(value).or_insert_with(|| {
                domains.push(Domain {
                    value,
                    eligible_nodes: 0,
                    matching_pods: 0,
                });
                DomainId(u32::try_from(domains.len() - 1).expect("fewer than 2^32 domains"))
            });
            self.of_slot[slot.index()] = Some(id);
        }
    }

    fn domain_mut(&mut self, slot: Slot) -> Option<&mut Domain<'a>> {
        self.of_slot[slot.index()].map(|id| &mut self.domains[id.index()])
    }

    /// The values of the key, domains or not; a [`DomainId`] is an index.
    pub fn values(&self) -> &[Domain<'a>] {
        &self.domains
    }

    /// The domains: values with an eligible node.
    pub fn domains(&self) -> impl Iterator<Item = &Domain<'a>> {
        self.domains
            .iter()
            .filter(|domain| domain.eligible_nodes > 0)
    }

    /// The domain that a node would be in; `None` when it lacks the key.
    pub fn domain_of(&self, slot: Slot) -> Option<DomainId> {
        self.of_slot[slot.index()]
    }

    /// What counts in the domain of a node; `None` when it lacks the key.
    pub fn at(&self, slot: Slot) -> Option<&Domain<'a>> {
        self.domain_of(slot).map(|id| &self.domains[id.index()])
    }
}

/// The nodes that a constraint looks at, in node order.
fn eligible_slots(eligibility: &Eligibility<'_>, nodes: &Nodes) -> Vec<Slot> {
    let symbol = |key: &&str| nodes.symbols().find(key).unwrap_or(Symbol::ABSENT);
    let required: Vec<Symbol> = eligibility.required_keys.iter().map(symbol).collect();
    let affinity = eligibility.affinity.map(|affinity| nodes.resolve(affinity));
    let eligible = |node: NodeRef<'_>| {
        required.iter().all(|key| node.label(*key).is_some())
            && affinity
                .as_ref()
                .is_none_or(|affinity| affinity.matches(&node))
            && eligibility
                .tolerations
                .is_none_or(|t| t.tolerate_all(node.taints()))
    };
    let slots = nodes.order().iter().copied();
    slots
        .filter(|slot| nodes.get(*slot).is_some_and(eligible))
        .collect()
}

/// How many pods that match a selector count on each node itself, by slot.
pub fn count_per_node(selector: &Selector, nodes: &Nodes, namespace: &Namespace) -> Vec<u32> {
    let mut counts = vec![0; nodes.slot_count()];
    for (slot, pods) in namespace.label_sets().counts(selector) {
        counts[slot.index()] += pods;
    }
    counts
}
