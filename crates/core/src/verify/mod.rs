//! Compares the counts that a snapshot keeps with those of a state that is built again from the
//! same objects, by the same changes: partitions of the nodes, tables of label sets, views, and
//! what pods and reservations take on each node. A number that differs has drifted, which is always
//! a fault of the program.
//!
//! The comparison reads one state and holds no lock, so it may run at any time. It costs the memory
//! and the time of loading the objects, and a cold count for each partition and each view. Whether
//! the rules are right is not asked here: tests compare every decision with a recount that shares no
//! rule with the service.
//!
//! Both states number their nodes, domains and label sets in their own way, so everything is
//! compared by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use crate::matching::Requests;
use crate::proto::v1;
use crate::snapshot::{
    Deadline, DomainId, DomainKey, FreeVolume, ListOf, Namespace, Nodes, PartitionInUse, Query,
    State, Stopped, ViewCopy, partition,
};

#[cfg(test)]
mod tests;

/// Rebuilds a state and compares.
///
/// # Errors
/// `is_given_up` has returned true, or there is no memory for a second state.
pub fn verify(state: &State, is_given_up: &dyn Fn() -> bool) -> Result<Verification, Stopped> {
    let deadline = state.deadline(is_given_up);
    let rebuilt = state.rebuilt(&deadline)?;
    let both = [state, &rebuilt];
    let partitions = state.partitions();
    let mut report = Verification {
        revision: state.revision,
        nodes: rebuilt.sizes.nodes,
        pods: rebuilt.sizes.pods,
        label_sets: rebuilt.sizes.label_sets,
        partitions: partitions.len(),
        ..Verification::default()
    };
    let findings = &mut report.findings;
    let order = || "node order".to_owned();
    findings.compare(
        "",
        order,
        "place of node",
        both.map(|it| places(it.nodes())),
    );
    findings.compare(
        "",
        || "snapshot".to_owned(),
        "value of",
        both.map(shared_facts),
    );
    for kept in &partitions {
        compare_partition(kept, both, &deadline, findings)?;
    }
    let partitions = partitions.iter().map(|in_use| (in_use.id(), in_use));
    let partitions: HashMap<_, _> = partitions.collect();
    let none = Namespace::default();
    for (name, kept) in state.namespaces() {
        deadline.look()?;
        let again = rebuilt.namespace(name).unwrap_or(&none);
        let sets = [
            label_sets(kept, state.nodes()),
            label_sets(again, rebuilt.nodes()),
        ];
        report
            .findings
            .compare(name, || "label sets".to_owned(), "pods", sets);
        for copy in kept.view_copies() {
            let view = NamedView {
                name,
                namespace: kept,
                copy,
            };
            view.compare_sets(&rebuilt, &deadline, &mut report.findings)?;
            // A view of a partition that is gone is never read again.
            if let Some(in_use) = partitions.get(&view.copy.partition()) {
                view.compare_counts(in_use, both, &deadline, &mut report.findings)?;
                report.views += 1;
            }
        }
    }
    Ok(report)
}

/// The places of nodes in node order, as far as they are found by name.
fn places(nodes: &Nodes) -> BTreeMap<&str, Option<usize>> {
    let order = nodes.order().iter().enumerate();
    let place = order.map(|(index, slot)| {
        let name = nodes.name(*slot);
        (name, (nodes.find(name) == Some(*slot)).then_some(index))
    });
    place.collect()
}

/// The number of pods with each label set, and of those that count on each node.
fn label_sets<'a>(
    namespace: &'a Namespace,
    nodes: &'a Nodes,
) -> BTreeMap<(String, Option<&'a str>), u32> {
    let sets = namespace.label_sets();
    let mut all = BTreeMap::new();
    for (id, pods) in sets.in_use() {
        let texts: BTreeMap<_, _> = sets.texts(id).collect();
        let labels = json(&texts);
        let counts = sets.counts(id);
        all.extend(counts.map(|(slot, pods)| ((labels.clone(), Some(nodes.name(slot))), pods)));
        let owned = texts.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        if sets.find(&owned.collect()) == Some(id) {
            all.insert((labels, None), pods);
        }
    }
    all
}

/// Compares a partition and its topology with rebuilt ones.
fn compare_partition(
    kept: &PartitionInUse,
    [state, rebuilt]: [&State; 2],
    deadline: &Deadline<'_>,
    findings: &mut Findings,
) -> Result<(), Stopped> {
    let key = kept.partition.key();
    let again = rebuilt.read_view("", deadline).in_use(key)?;
    let both = [(kept, state.nodes()), (&again, rebuilt.nodes())];
    let subject = || describe(key);
    findings.compare("", subject, "domain of node", both.map(members));
    findings.compare("", subject, "nodes in domain", both.map(nodes_in));
    let totals = both.map(|(it, _)| {
        let (partition, topology) = (&it.partition, &it.topology);
        BTreeMap::from([
            ("domains", partition.domain_count()),
            ("eligible nodes", partition.eligible_total()),
            ("nodes with the key", topology.keyed()),
        ])
    });
    findings.compare("", subject, "number of", totals);
    Ok(())
}

/// The domain that each node is a member of, and whether the node is eligible.
fn members<'a>(
    (in_use, nodes): (&'a PartitionInUse, &'a Nodes),
) -> BTreeMap<&'a str, (Option<&'a str>, bool)> {
    let member = |name: &'a str| {
        let slot = nodes.find(name)?;
        let domain = Some(in_use.partition.member(slot)).filter(|domain| domain.is_some());
        let domain = domain.map(|domain| in_use.topology.value(domain, nodes));
        Some((name, (domain, in_use.partition.is_eligible(slot))))
    };
    nodes.names().filter_map(member).collect()
}

/// The number of nodes in each domain: all, and those that are eligible.
fn nodes_in<'a>((in_use, nodes): (&'a PartitionInUse, &'a Nodes)) -> BTreeMap<&'a str, (u32, u32)> {
    let all = in_use.topology.nodes_in().iter().enumerate();
    let used = all.filter(|(_, nodes)| **nodes > 0).map(|(index, all)| {
        let domain = DomainId::at(index);
        let eligible = in_use.partition.eligible_nodes(domain);
        (in_use.topology.value(domain, nodes), (*all, eligible))
    });
    used.collect()
}

/// A view of a namespace.
struct NamedView<'a> {
    name: &'a str,
    namespace: &'a Namespace,
    copy: ViewCopy,
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
        rebuilt: &State,
        deadline: &Deadline<'_>,
        findings: &mut Findings,
    ) -> Result<(), Stopped> {
        let sets = self.namespace.label_sets();
        let known = self.copy.sets.iter().map(|id| sets.texts(*id).collect());
        let known: BTreeSet<Vec<(&str, &str)>> = known.collect();
        let read_view = rebuilt.read_view(self.name, deadline);
        let matched = read_view.matching_sets(self.copy.selector());
        let matched = matched.map(|set| Ok(set?.labels().collect()));
        let matched: BTreeSet<Vec<(&str, &str)>> = matched.collect::<Result<_, Stopped>>()?;
        let both = [&known, &matched].map(|sets| sets.iter().map(|set| (set, true)).collect());
        findings.compare(self.name, || self.describe(), "whether it matches", both);
        Ok(())
    }

    /// Compares the view on a partition with a count on the rebuilt state.
    fn compare_counts(
        &self,
        in_use: &PartitionInUse,
        [state, rebuilt]: [&State; 2],
        deadline: &Deadline<'_>,
        findings: &mut Findings,
    ) -> Result<(), Stopped> {
        let key = in_use.partition.key();
        let query = Query {
            selector: self.copy.selector(),
            partition: key,
        };
        let counts = rebuilt.read_view(self.name, deadline).count(query)?;
        let subject = || format!("view of {} on {}", self.describe(), describe(key));
        let view = &self.copy.view;
        let again = counted(counts.in_use(), counts.counts(), rebuilt.nodes());
        // The number of domains at each count.
        let mut levels: BTreeMap<u32, u32> = BTreeMap::new();
        for count in again.values() {
            *levels.entry(*count).or_default() += 1;
        }
        let both = [counted(in_use, view.counts(), state.nodes()), again];
        findings.compare(self.name, subject, "count of domain", both);
        if let Some(kept) = view.levels() {
            let both = [kept.clone(), levels];
            findings.compare(self.name, subject, "domains that stand at", both);
        }
        Ok(())
    }
}

/// The count of each domain. A value that is no domain must count nothing.
fn counted<'a>(
    in_use: &'a PartitionInUse,
    counts: &[u32],
    nodes: &'a Nodes,
) -> BTreeMap<&'a str, u32> {
    let counts = counts.iter().enumerate();
    let counts = counts.map(|(index, count)| (DomainId::at(index), *count));
    let is_shown =
        |(id, count): &(DomainId, u32)| in_use.partition.eligible_nodes(*id) > 0 || *count > 0;
    let counts = counts.filter(is_shown);
    counts
        .map(|(id, count)| (in_use.topology.value(id, nodes), count))
        .collect()
}

/// What a state keeps for all namespaces together.
fn shared_facts(state: &State) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |fact: String, value: String| facts.insert(fact, value);
    let sizes = state.sizes;
    for (what, number) in [
        ("nodes", sizes.nodes),
        ("pods", sizes.pods),
        ("label sets", sizes.label_sets),
        ("services, owners and other objects", sizes.owners),
    ] {
        add(format!("number of {what}"), number.to_string());
    }
    for (node, requested) in state.requested_by_node() {
        let amounts = requested.amounts().filter(|(_, amount)| *amount != 0);
        let amounts: BTreeMap<_, _> = amounts
            .map(|(name, it)| (name.as_str().to_owned(), it))
            .collect();
        let (pods, ports) = (requested.pods(), requested.port_count());
        let value = format!("{pods} pods, {ports} ports, {amounts:?}");
        add(format!("room of node {node:?}"), value);
    }
    for (node, pod) in state.nominations().iter() {
        let requests = json(&pod.requests.as_deref().and_then(Requests::to_wire));
        let (labels, priority) = (json(&pod.labels), pod.priority);
        let value = format!("{node} {:?} {priority} {labels} {requests}", pod.uid);
        add(
            format!("nominated pod {}/{}", pod.namespace, pod.name),
            value,
        );
    }
    for (what, table) in [
        ("anti-affinity", state.anti_affinity()),
        ("scored term", state.scored_terms()),
    ] {
        for held in table.iter() {
            let term = format!("{} of {:?}", json(&held.term().to_wire()), held.own());
            for (slot, pods) in held.counts() {
                let node = state.nodes().name(slot);
                let fact = format!("pods with {what} {term} on {node:?}");
                add(fact, pods.to_string());
            }
        }
    }
    for (key, used) in state.storage_use().iter() {
        let disk = used.disk.map(|disk| (disk.read_only, &disk.monitors));
        let node = state.nodes().name(used.slot);
        let fact = format!("pods with storage {key} ({disk:?}) on {node:?}");
        add(fact, used.pods.to_string());
    }
    for (slot, used) in state.storage_use().reserved() {
        let node = state.nodes().name(slot);
        add(
            format!("storage of {} on {node:?}", used.name),
            String::new(),
        );
    }
    for entry in free_volumes(state) {
        add(format!("free volume {entry}"), String::new());
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

/// Compact JSON of a wire object.
fn json(wire: &impl serde::Serialize) -> String {
    serde_json::to_string(wire).unwrap_or_default()
}

/// The number of mismatches that are described; further ones are only counted.
const MAX_DESCRIBED: usize = 100;

/// A kept number that differs from the recount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The namespace; empty for counts that all namespaces share.
    pub namespace: String,
    /// The subject of the number: a view, a partition, a label set.
    pub subject: String,
    /// The name of the number.
    pub aspect: String,
    /// The kept value.
    pub kept: String,
    /// The recounted value.
    pub recounted: String,
}

/// The mismatches of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first mismatches, at most a hundred.
    pub described: Vec<Mismatch>,
    /// The number of all mismatches.
    pub total: usize,
}

/// The counts that were verified, and those that differed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The revision that was copied.
    pub revision: i64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of pods, counted or not.
    pub pods: usize,
    /// The number of tables of label sets that were compared with the pods.
    pub label_sets: usize,
    /// The number of partitions that were compared with the nodes.
    pub partitions: usize,
    /// The number of live views that were compared with the pods and the nodes.
    pub views: usize,
    /// The counts that differed.
    pub findings: Findings,
}

impl Findings {
    /// Compares what is kept about a subject with the recount. Texts are written only of what
    /// differs. `aspect` and a key name a value; a missing one is `none`.
    pub(super) fn compare<K: Ord + Debug, V: PartialEq + Debug>(
        &mut self,
        namespace: &str,
        subject: impl Fn() -> String,
        aspect: &str,
        [kept, recounted]: [BTreeMap<K, V>; 2],
    ) {
        let keys: BTreeSet<&K> = kept.keys().chain(recounted.keys()).collect();
        for key in keys {
            let (kept, recounted) = (kept.get(key), recounted.get(key));
            if kept == recounted {
                continue;
            }
            self.total += 1;
            if self.described.len() < MAX_DESCRIBED {
                let text =
                    |value: Option<&V>| value.map_or("none".to_owned(), |it| format!("{it:?}"));
                self.described.push(Mismatch {
                    namespace: namespace.to_owned(),
                    subject: subject(),
                    aspect: format!("{aspect} {key:?}"),
                    kept: text(kept),
                    recounted: text(recounted),
                });
            }
        }
    }
}
