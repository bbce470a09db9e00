//! Partitions, recounted from the nodes.

use std::collections::{BTreeMap, HashMap};

use super::finding::Findings;
use crate::proto::v1;
use crate::recount::{self, kept_off_by_cordon, node_affinity_matches, taints_tolerated};
use crate::snapshot::{DomainId, DomainKey, Eligibility, Nodes, PartitionInUse, Slot, partition};

/// Stands for a node that exists and has no domain.
const NO_DOMAIN: &str = "none";

/// The nodes as wire objects, in node order.
pub struct NodeList {
    nodes: Vec<(Slot, v1::Node)>,
    by_name: HashMap<String, usize>,
}

/// The eligible nodes by domain.
pub struct PartitionRecount<'a> {
    /// By node: true if it is eligible, and its domain if it has one.
    members: Vec<(bool, Option<&'a str>)>,
    /// Eligible nodes by domain.
    pub domains: BTreeMap<&'a str, u32>,
}

impl NodeList {
    /// The nodes of a copy.
    pub fn of(nodes: &Nodes) -> Self {
        let slots = nodes.order().iter();
        let nodes: Vec<_> = slots
            .filter_map(|slot| Some((*slot, nodes.get(*slot)?.to_wire())))
            .collect();
        let name = |(index, (_, node)): (usize, &(Slot, v1::Node))| (name(node).to_owned(), index);
        Self {
            by_name: nodes.iter().enumerate().map(name).collect(),
            nodes,
        }
    }

    /// The index of a node that exists.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Compares node order and the look-up by name with the nodes.
    pub fn compare(&self, nodes: &Nodes, findings: &mut Findings) {
        let mut order = findings.about("", || "node order".to_owned());
        order.compare("number of nodes", nodes.len(), self.by_name.len());
        let sorted = self.nodes.is_sorted_by(|a, b| name(&a.1) < name(&b.1));
        order.compare("ascending by name", sorted, true);
        for (slot, node) in &self.nodes {
            let found = nodes.find(name(node)).map_or(-1, index);
            let aspect = format_args!("look-up of {:?}", name(node));
            order.compare(aspect, found, index(*slot));
        }
    }

    /// Groups the nodes into domains, by the words of `docs/semantics.md`.
    pub fn part(&self, key: &partition::Key) -> PartitionRecount<'_> {
        let eligible = Eligible::of(&key.eligibility);
        let mut part = PartitionRecount {
            members: Vec::with_capacity(self.nodes.len()),
            domains: BTreeMap::new(),
        };
        for (_, node) in &self.nodes {
            let eligible = eligible.admits(node);
            let domain = domain_of(node, key).filter(|_| eligible);
            part.members.push((eligible, domain));
            if let Some(domain) = domain {
                *part.domains.entry(domain).or_default() += 1;
            }
        }
        part
    }

    /// Compares the number of nodes with each value of a topology key.
    fn compare_topology(&self, in_use: &PartitionInUse, all: &Nodes, findings: &mut Findings) {
        let key = in_use.partition.key().topology.clone();
        let everybody = self.part(&partition::Key::everywhere(key));
        let topology = || format!("topology of {}", describe(in_use.partition.key()));
        let mut topology = findings.about("", topology);
        let nodes_in = in_use.topology.nodes_in().iter().copied().enumerate();
        let kept: BTreeMap<&str, u32> = nodes_in
            .filter(|(_, nodes)| *nodes > 0)
            .map(|(index, nodes)| (in_use.topology.value(DomainId::at(index), all), nodes))
            .collect();
        let aspect = |value: &&str| format!("nodes in domain {value:?}");
        topology.compare_counts(aspect, &kept, &everybody.domains);
        let keyed = everybody.domains.values().map(|nodes| *nodes as usize);
        topology.compare("nodes with the key", in_use.topology.keyed(), keyed.sum());
    }

    /// Compares a partition and its topology with the nodes.
    pub fn compare_partition(
        &self,
        in_use: &PartitionInUse,
        part: &PartitionRecount<'_>,
        all: &Nodes,
        findings: &mut Findings,
    ) {
        self.compare_topology(in_use, all, findings);
        let partition = &*in_use.partition;
        let mut compared = findings.about("", || describe(partition.key()));
        let value = |domain: DomainId| in_use.topology.value(domain, all);
        for ((slot, node), (eligible, domain)) in self.nodes.iter().zip(&part.members) {
            let kept = Some(partition.member(*slot)).filter(|domain| domain.is_some());
            let kept = kept.map_or(NO_DOMAIN, value);
            let aspect = format_args!("domain of node {:?}", name(node));
            compared.compare(aspect, kept, domain.unwrap_or(NO_DOMAIN));
            let aspect = format_args!("whether node {:?} is eligible", name(node));
            compared.compare(aspect, partition.is_eligible(*slot), *eligible);
        }
        let kept: BTreeMap<&str, u32> = partition
            .domains()
            .map(|domain| (value(domain), partition.eligible_nodes(domain)))
            .collect();
        let aspect = |value: &&str| format!("eligible nodes in domain {value:?}");
        compared.compare_counts(aspect, &kept, &part.domains);
        let (kept, recounted) = (partition.domain_count(), part.domains.len());
        compared.compare("number of domains", kept, recounted);
        let recounted = part.members.iter().filter(|(eligible, _)| *eligible);
        let (kept, recounted) = (partition.eligible_total(), recounted.count());
        compared.compare("number of eligible nodes", kept, recounted);
    }
}

impl<'a> PartitionRecount<'a> {
    /// The domain of a node, by index.
    pub fn domain(&self, node: usize) -> Option<&'a str> {
        self.members[node].1
    }
}

/// Decides which nodes are eligible, on wire objects.
struct Eligible<'a> {
    rules: &'a Eligibility,
    /// An incoming pod with the affinity and tolerations of the rules.
    pod: v1::Pod,
    /// The same pod with a toleration of cordons.
    cordoned: v1::Pod,
}

impl<'a> Eligible<'a> {
    fn of(rules: &'a Eligibility) -> Self {
        let tolerating = |tolerations: Option<&crate::matching::Tolerations>| v1::PodSpec {
            tolerations: tolerations.map_or(Vec::new(), |t| t.to_wire()),
            ..v1::PodSpec::default()
        };
        let mut spec = tolerating(rules.tolerations.as_ref());
        if let Some(affinity) = &rules.affinity {
            affinity.write(&mut spec);
        }
        let pod = |spec| v1::Pod {
            spec: Some(spec),
            ..v1::Pod::default()
        };
        Self {
            rules,
            pod: pod(spec),
            cordoned: pod(tolerating(rules.cordon_tolerations.as_ref())),
        }
    }

    fn admits(&self, node: &v1::Node) -> bool {
        let labels = node.metadata.as_ref().map(|metadata| &metadata.labels);
        let has_key = |key: &str| labels.is_some_and(|labels| labels.contains_key(key));
        self.rules.required_keys.iter().all(|key| has_key(key))
            && (self.rules.affinity.is_none() || node_affinity_matches(&self.pod, node))
            && (self.rules.tolerations.is_none() || taints_tolerated(&self.pod, node))
            && (self.rules.cordon_tolerations.is_none()
                || !kept_off_by_cordon(&self.cordoned, node))
    }
}

fn domain_of<'a>(node: &'a v1::Node, key: &partition::Key) -> Option<&'a str> {
    match &key.topology {
        DomainKey::Node => Some(name(node)),
        DomainKey::Label(label) => {
            let labels = node.metadata.as_ref().map(|metadata| &metadata.labels);
            let value = labels.and_then(|labels| labels.get(&**label));
            let missing = key.missing_is_empty.then_some("");
            value.map(String::as_str).or(missing)
        }
    }
}

/// Describes a partition for a person.
pub fn describe(key: &partition::Key) -> String {
    let mut text = match &key.topology {
        DomainKey::Node => "single nodes".to_owned(),
        DomainKey::Label(label) => format!("nodes by {label}"),
    };
    let rules = &key.eligibility;
    if !rules.required_keys.is_empty() {
        text += &format!(", having {}", rules.required_keys.join(" and "));
    }
    if let Some(affinity) = &rules.affinity {
        let mut spec = v1::PodSpec::default();
        affinity.write(&mut spec);
        text += &format!(", matching {}", json(&spec));
    }
    for (what, tolerations) in [
        ("taints", &rules.tolerations),
        ("cordons", &rules.cordon_tolerations),
    ] {
        if let Some(tolerations) = tolerations {
            text += &format!(", {what} tolerated by {}", json(&tolerations.to_wire()));
        }
    }
    text
}

/// Compact JSON of a wire object.
pub fn json(wire: &impl serde::Serialize) -> String {
    serde_json::to_string(wire).unwrap_or_default()
}

fn name(node: &v1::Node) -> &str {
    recount::name(node.metadata.as_ref())
}

fn index(slot: Slot) -> i64 {
    i64::try_from(slot.index()).unwrap_or(i64::MAX)
}
