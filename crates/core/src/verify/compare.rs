//! Compares the kept counts of a snapshot with those of a rebuilt state. Both number their nodes,
//! domains and label sets in their own way, so everything is compared by name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use std::sync::Arc;

use super::finding::{Findings, Verification};
use crate::matching::{PodDisk, Requests};
use crate::proto::v1;
use crate::snapshot::{
    Deadline, DomainCounts, DomainId, DomainKey, FreeVolume, LabelSetId, ListOf, Namespace, Nodes,
    PartitionInUse, Query, ReadView, Slot, State, Stopped, TermTable, ViewCopy, partition,
};

/// Stands for a node that exists and has no domain, and for a number that there is not.
const NONE: &str = "none";

/// What is kept about a subject: the values of its aspects.
type KeptNumbers = BTreeMap<(String, String), String>;

/// The labels of a label set.
type LabelTexts = BTreeMap<String, String>;

/// Rebuilds a state and compares.
///
/// # Errors
/// `is_given_up` has returned true, or there is no memory for a second state.
pub fn verify(state: &State, is_given_up: &dyn Fn() -> bool) -> Result<Verification, Stopped> {
    let deadline = state.deadline(is_given_up);
    let namespaces = state.namespaces();
    let rebuilt = state.rebuilt(&namespaces, &deadline)?;
    let mut report = compare_namespaces(state, &namespaces, &rebuilt, &deadline)?;
    let (kept, recounted) = (shared_facts(state), shared_facts(&rebuilt));
    for key in kept.keys().chain(recounted.keys()).collect::<BTreeSet<_>>() {
        let of = |facts: &KeptNumbers| facts.get(key).map_or(NONE, String::as_str).to_owned();
        let mut subject = report.findings.about("", || key.0.clone());
        subject.compare(&key.1, of(&kept), of(&recounted));
    }
    Ok(report)
}

/// Rebuilds a namespace and compares everything except what all namespaces share.
///
/// # Errors
/// Those of [`verify`].
pub fn verify_sample(
    state: &State,
    namespace: &str,
    is_given_up: &dyn Fn() -> bool,
) -> Result<Verification, Stopped> {
    let deadline = state.deadline(is_given_up);
    let sample = state.namespace(namespace).map(|it| (namespace, it));
    let sample: Vec<_> = sample.into_iter().collect();
    let rebuilt = state.rebuilt(&sample, &deadline)?;
    compare_namespaces(state, &sample, &rebuilt, &deadline)
}

fn compare_namespaces(
    state: &State,
    namespaces: &[(&str, &Namespace)],
    recounted: &State,
    deadline: &Deadline<'_>,
) -> Result<Verification, Stopped> {
    let partitions = state.partitions();
    let mut report = Verification {
        revision: state.revision,
        nodes: recounted.sizes.nodes,
        pods: recounted.sizes.pods,
        label_sets: recounted.sizes.label_sets,
        partitions: partitions.len(),
        ..Verification::default()
    };
    compare_nodes(state.nodes(), recounted.nodes(), &mut report.findings);
    recounted.read("", deadline, |read_view| {
        for in_use in &partitions {
            let recounted = read_view.in_use(in_use.partition.key())?;
            let kept = Grouped::of(in_use, state.nodes());
            kept.compare(
                &Grouped::of(&recounted, read_view.nodes),
                &mut report.findings,
            );
        }
        Ok(())
    })?;
    let partitions = partitions.iter().map(|in_use| (in_use.id(), in_use));
    let partitions: HashMap<_, _> = partitions.collect();
    let none = Namespace::default();
    for (name, namespace) in namespaces {
        let other = recounted.namespace(name).unwrap_or(&none);
        let both = [(*namespace, state.nodes()), (other, recounted.nodes())];
        compare_label_sets(name, both, &mut report.findings);
        recounted.read(name, deadline, |read_view| {
            for copy in &namespace.view_copies() {
                let view = NamedView {
                    name,
                    namespace,
                    copy,
                };
                view.compare_sets(&read_view, &mut report.findings)?;
                // A view of a partition that is gone is never read again.
                if let Some(in_use) = partitions.get(&copy.partition()) {
                    let kept = Grouped::of(in_use, state.nodes());
                    view.compare(&kept, &read_view, &mut report.findings)?;
                    report.views += 1;
                }
            }
            Ok(())
        })?;
        deadline.look()?;
    }
    Ok(report)
}

/// Compares node order and the look-up by name.
fn compare_nodes(kept: &Nodes, recounted: &Nodes, findings: &mut Findings) {
    let places = |nodes: &Nodes| -> BTreeMap<String, String> {
        let place = |(index, slot): (usize, &Slot)| {
            let name = nodes.name(*slot);
            let is_found = nodes.find(name) == Some(*slot);
            let place = if is_found {
                index.to_string()
            } else {
                "not found".to_owned()
            };
            (name.to_owned(), place)
        };
        nodes.order().iter().enumerate().map(place).collect()
    };
    let (kept_at, recounted_at) = (places(kept), places(recounted));
    let mut order = findings.about("", || "node order".to_owned());
    order.compare("number of nodes", kept.len(), recounted.len());
    for name in kept_at
        .keys()
        .chain(recounted_at.keys())
        .collect::<BTreeSet<_>>()
    {
        let of = |places: &BTreeMap<String, String>| {
            places.get(name).map_or(NONE, String::as_str).to_owned()
        };
        order.compare(
            format_args!("place of {name:?}"),
            of(&kept_at),
            of(&recounted_at),
        );
    }
}

/// Compares the tables of label sets of a namespace: the kept one and the rebuilt one.
fn compare_label_sets(
    name: &str,
    [(kept, nodes), (recounted, other_nodes)]: [(&Namespace, &Nodes); 2],
    findings: &mut Findings,
) {
    let (sets, others) = (kept.label_sets(), recounted.label_sets());
    let mut totals = findings.about(name, || "label sets".to_owned());
    for kept in [sets.in_use().count(), sets.len()] {
        totals.compare("number of label sets", kept, others.len());
    }
    let pods_of: HashMap<LabelSetId, u32> = others.in_use().collect();
    for (id, pods) in sets.in_use() {
        let texts = labels(kept, id);
        let other = others.find(&texts);
        let mut compared = findings.about(name, || format!("label set {}", json(&texts)));
        let recounted = other.and_then(|id| pods_of.get(&id)).copied().unwrap_or(0);
        compared.compare("pods that have it", pods, recounted);
        let found = sets.find(&texts) == Some(id);
        compared.compare("whether it is found by its labels", found, true);
        let counted = sets.counts(id).map(|(slot, pods)| (nodes.name(slot), pods));
        let recounted = other.into_iter().flat_map(|id| others.counts(id));
        let recounted = recounted.map(|(slot, pods)| (other_nodes.name(slot), pods));
        let aspect = |node: &&str| format!("pods that count on node {node:?}");
        compared.compare_counts(aspect, &counted.collect(), &recounted.collect());
    }
}

/// A partition and the nodes that it groups.
#[derive(Clone, Copy)]
struct Grouped<'a> {
    in_use: &'a PartitionInUse,
    nodes: &'a Nodes,
}

impl<'a> Grouped<'a> {
    fn of(in_use: &'a PartitionInUse, nodes: &'a Nodes) -> Self {
        Self { in_use, nodes }
    }

    fn value(&self, domain: DomainId) -> &'a str {
        self.in_use.topology.value(domain, self.nodes)
    }

    /// The domain of a node, and whether the node is eligible.
    fn member(&self, node: &str) -> (&'a str, bool) {
        let Some(slot) = self.nodes.find(node) else {
            return (NONE, false);
        };
        let partition = &self.in_use.partition;
        let domain = Some(partition.member(slot)).filter(|domain| domain.is_some());
        let domain = domain.map_or(NONE, |domain| self.value(domain));
        (domain, partition.is_eligible(slot))
    }

    /// A number for each domain, by the value of the topology key.
    fn by_value(&self, number: impl Fn(DomainId) -> u32) -> BTreeMap<&'a str, u32> {
        let domains = self.in_use.partition.domains();
        domains
            .map(|domain| (self.value(domain), number(domain)))
            .collect()
    }

    fn nodes_with_value(&self) -> BTreeMap<&'a str, u32> {
        let nodes_in = self.in_use.topology.nodes_in().iter().enumerate();
        let used = nodes_in.filter(|(_, nodes)| **nodes > 0);
        used.map(|(index, nodes)| (self.value(DomainId::at(index)), *nodes))
            .collect()
    }

    /// Compares the partition and its topology with rebuilt ones.
    fn compare(&self, recounted: &Grouped<'_>, findings: &mut Findings) {
        let partition = &*self.in_use.partition;
        let subject = || format!("topology of {}", describe(partition.key()));
        let mut topology = findings.about("", subject);
        let aspect = |value: &&str| format!("nodes in domain {value:?}");
        let values = (self.nodes_with_value(), recounted.nodes_with_value());
        topology.compare_counts(aspect, &values.0, &values.1);
        let keyed = |it: &Grouped<'_>| it.in_use.topology.keyed();
        topology.compare("nodes with the key", keyed(self), keyed(recounted));

        let mut compared = findings.about("", || describe(partition.key()));
        for node in self.nodes.names() {
            let (kept, recounted) = (self.member(node), recounted.member(node));
            compared.compare(format_args!("domain of node {node:?}"), kept.0, recounted.0);
            let aspect = format_args!("whether node {node:?} is eligible");
            compared.compare(aspect, kept.1, recounted.1);
        }
        let other = &*recounted.in_use.partition;
        let aspect = |value: &&str| format!("eligible nodes in domain {value:?}");
        let kept = self.by_value(|domain| partition.eligible_nodes(domain));
        let recounted = recounted.by_value(|domain| other.eligible_nodes(domain));
        compared.compare_counts(aspect, &kept, &recounted);
        let (kept, recounted) = (partition.domain_count(), other.domain_count());
        compared.compare("number of domains", kept, recounted);
        let (kept, recounted) = (partition.eligible_total(), other.eligible_total());
        compared.compare("number of eligible nodes", kept, recounted);
    }
}

/// A view of a namespace.
struct NamedView<'a> {
    name: &'a str,
    namespace: &'a Namespace,
    copy: &'a ViewCopy,
}

impl NamedView<'_> {
    fn describe(&self) -> String {
        match self.copy.selector().to_wire() {
            Some(selector) => format!("selector {}", json(&selector)),
            None => "no selector".to_owned(),
        }
    }

    /// Compares the label sets that the selector is known to match.
    fn compare_sets(
        &self,
        read_view: &ReadView<'_>,
        findings: &mut Findings,
    ) -> Result<(), Stopped> {
        let mut compared = findings.about(self.name, || self.describe());
        let known = self.copy.sets.iter().map(|id| labels(self.namespace, *id));
        let known: HashSet<LabelTexts> = known.collect();
        let matched = read_view.matching_sets(self.copy.selector());
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let matched = matched.map(|set| Ok(set?.labels().map(owned).collect()));
        let matched: HashSet<LabelTexts> = matched.collect::<Result<_, Stopped>>()?;
        let aspect = "number of label sets that it matches";
        compared.compare(aspect, self.copy.sets.len(), matched.len());
        for texts in known.symmetric_difference(&matched) {
            let aspect = format!("whether it is known to match {}", json(texts));
            compared.compare(aspect, known.contains(texts), matched.contains(texts));
        }
        Ok(())
    }

    /// Compares the view on a partition with a count on the rebuilt state.
    fn compare(
        &self,
        kept: &Grouped<'_>,
        read_view: &ReadView<'_>,
        findings: &mut Findings,
    ) -> Result<(), Stopped> {
        let (key, view) = (kept.in_use.partition.key(), &self.copy.view);
        let counts: DomainCounts<'_> = read_view.count(Query {
            selector: self.copy.selector(),
            partition: key,
        })?;
        let recounted = Grouped::of(counts.in_use(), read_view.nodes);
        let recounted = recounted.by_value(|domain| counts.matching_pods(domain));
        let subject = || format!("view of {} on {}", self.describe(), describe(key));
        let mut compared = findings.about(self.name, subject);
        let aspect = |value: &&str| format!("count of domain {value:?}");
        compared.compare_counts(
            aspect,
            &kept.by_value(|domain| view.count(domain)),
            &recounted,
        );
        // A value that is no domain must count nothing.
        for index in 0..view.counts().len() {
            let id = DomainId::at(index);
            if kept.in_use.partition.eligible_nodes(id) == 0 {
                let aspect = format_args!("count of number {index}, which is no domain");
                compared.compare(aspect, view.count(id), 0);
            }
        }
        if let Some(levels) = view.levels() {
            // The number of domains at each count.
            let mut at_count: BTreeMap<u32, u32> = BTreeMap::new();
            for count in recounted.values() {
                *at_count.entry(*count).or_default() += 1;
            }
            let aspect = |count: &u32| format!("domains that stand at {count}");
            compared.compare_counts(aspect, levels, &at_count);
        }
        let smallest = |count: Option<u32>| count.map_or(NONE.to_owned(), |n| n.to_string());
        let kept = smallest(view.smallest(&kept.in_use.partition));
        compared.compare("smallest count", kept, smallest(counts.smallest()));
        Ok(())
    }
}

/// What a state keeps for all namespaces together.
fn shared_facts(state: &State) -> KeptNumbers {
    let mut facts = KeptNumbers::new();
    let mut add = |subject: &str, aspect: String, value: String| {
        facts.insert((subject.to_owned(), aspect), value);
    };
    let sizes = state.sizes;
    for (what, number) in [
        ("nodes", sizes.nodes),
        ("pods", sizes.pods),
        ("label sets", sizes.label_sets),
        ("services, owners and other objects", sizes.owners),
    ] {
        add("snapshot", format!("number of {what}"), number.to_string());
    }
    for (node, requested) in state.requested_by_node() {
        let room = format!("room of node {node:?}");
        add(&room, "pods".to_owned(), requested.pods().to_string());
        add(
            &room,
            "host ports in use".to_owned(),
            requested.port_count().to_string(),
        );
        let amounts = requested.amounts().filter(|(_, amount)| *amount != 0);
        for (resource, amount) in amounts {
            let aspect = format!("{} that pods request", resource.as_str());
            add(&room, aspect, amount.to_string());
        }
    }
    for (node, pod) in state.nominations().iter() {
        let subject = format!("nominated pod {}/{}", pod.namespace, pod.name);
        let requests = pod.requests.as_deref().and_then(Requests::to_wire);
        let (labels, requests) = (json(&pod.labels), json(&requests));
        let value = format!("{node} {:?} {} {labels} {requests}", pod.uid, pod.priority);
        add(
            &subject,
            "node, priority, labels and requests".to_owned(),
            value,
        );
    }
    let tables: [(&str, &TermTable); 2] = [
        ("anti-affinity of pods", state.anti_affinity()),
        ("scored terms of pods", state.scored_terms()),
    ];
    for (subject, table) in tables {
        for held in table.iter() {
            let term = format!("{} of {:?}", json(&held.term().to_wire()), held.own());
            for (slot, pods) in held.counts() {
                let node = state.nodes().name(slot);
                add(
                    subject,
                    format!("pods with {term} on {node:?}"),
                    pods.to_string(),
                );
            }
        }
    }
    let uses = state.storage_use();
    let named = |key: &str, disk: Option<&PodDisk>, slot| {
        let how = disk.map(|disk| (disk.read_only, &disk.monitors));
        format!(
            "pods with {key} ({how:?}) on {:?}",
            state.nodes().name(slot)
        )
    };
    for (key, used) in uses.iter() {
        add(
            "storage of pods",
            named(key, used.disk, used.slot),
            used.pods.to_string(),
        );
    }
    for (slot, used) in uses.reserved() {
        add(
            "storage of pods",
            named(&used.name, None, slot),
            "1".to_owned(),
        );
    }
    for entry in free_volumes(state) {
        add("free volumes", entry, "listed".to_owned());
    }
    facts
}

/// The entries of the lists of volumes that claims can be bound to.
fn free_volumes(state: &State) -> impl Iterator<Item = String> {
    let storage = &state.cluster_objects().storage;
    let is_current = |free: &FreeVolume| {
        let volume = storage.volume(&free.rank.name);
        volume.is_some_and(|volume| Arc::ptr_eq(volume, &free.volume))
    };
    storage.lists().flat_map(move |(of, list)| {
        let of = match of {
            ListOf::Claim(key) => format!("for {key}"),
            ListOf::Class(class, None) => format!("of {class} anywhere"),
            ListOf::Class(class, Some((key, value))) => format!("of {class} by {key}={value}"),
        };
        let current = list.iter().filter(move |free| is_current(free));
        current.map(move |free| format!("{} {of}", free.rank.name))
    })
}

/// Describes a partition for a person.
fn describe(key: &partition::Key) -> String {
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

/// The labels of a kept label set.
fn labels(namespace: &Namespace, id: LabelSetId) -> LabelTexts {
    let texts = namespace.label_sets().texts(id);
    texts.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// Compact JSON of a wire object.
fn json(wire: &impl serde::Serialize) -> String {
    serde_json::to_string(wire).unwrap_or_default()
}
