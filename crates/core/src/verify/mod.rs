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

use crate::matching::Requested;
use crate::proto::{count, v1};
use crate::snapshot::cluster_objects::ListOf;
use crate::snapshot::free_volumes::FreeVolume;
use crate::snapshot::label_sets::LabelSetId;
use crate::snapshot::revision::Namespace;
use crate::snapshot::views::CachedView;
use crate::snapshot::{Deadline, DomainId, Nodes, PartitionInUse, Query, State, Stopped};

#[cfg(test)]
mod tests;

/// Rebuilds a state and compares. The report is without the epoch of the snapshot.
///
/// # Errors
/// `is_given_up` has returned true, or there is no memory for a second state.
pub fn verify(
    state: &State,
    is_given_up: &dyn Fn() -> bool,
) -> Result<v1::VerifySnapshotResponse, Stopped> {
    let deadline = state.deadline(is_given_up);
    compare(state, &state.rebuilt(&deadline)?, &deadline)
}

/// Compares a state with one that was built of the same objects.
fn compare(
    state: &State,
    rebuilt: &State,
    deadline: &Deadline<'_>,
) -> Result<v1::VerifySnapshotResponse, Stopped> {
    let both = [state, rebuilt];
    let partitions = state.partitions();
    let mut report = v1::VerifySnapshotResponse {
        revision: state.revision,
        node_count: count(rebuilt.sizes.nodes),
        pod_count: count(rebuilt.sizes.pods),
        label_set_count: count(rebuilt.sizes.label_sets),
        partition_count: count(partitions.len()),
        ..Default::default()
    };
    compare_shared(both, &mut report);
    for kept in &partitions {
        compare_partition(kept, both, deadline, &mut report)?;
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
        report.compare(name, || "label sets".to_owned(), "pods", sets);
        let views = kept.views();
        for (number, cached) in views.iter() {
            let is_known = |set: &LabelSetId| views.watches(number, *set);
            let view = NamedView { name, cached };
            let namespaces = [kept, again];
            view.compare_sets(namespaces, is_known, deadline, &mut report)?;
            // A view of a partition that is gone is never read again.
            if let Some(in_use) = partitions.get(&cached.partition()) {
                view.compare_counts(in_use, both, deadline, &mut report)?;
                report.view_count += 1;
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
    findings: &mut v1::VerifySnapshotResponse,
) -> Result<(), Stopped> {
    let key = kept.partition.key();
    let again = rebuilt.read_view("", deadline).in_use(key)?;
    let both = [(kept, state.nodes()), (&again, rebuilt.nodes())];
    let subject = || format!("{key:?}");
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
    cached: &'a CachedView,
}

impl NamedView<'_> {
    fn describe(&self) -> String {
        format!("selector {}", json(&self.cached.selector().to_wire()))
    }

    /// Compares the label sets that the selector is known to match with those that it matches.
    fn compare_sets(
        &self,
        [kept, again]: [&Namespace; 2],
        is_known: impl Fn(&LabelSetId) -> bool,
        deadline: &Deadline<'_>,
        findings: &mut v1::VerifySnapshotResponse,
    ) -> Result<(), Stopped> {
        let selector = self.cached.selector();
        let (sets, all) = (kept.label_sets(), again.label_sets());
        let known = sets.in_use().map(|(id, _)| id).filter(is_known);
        let known = known.map(|id| (sets.texts(id).collect::<Vec<_>>(), true));
        let mut matched = BTreeMap::new();
        for set in deadline.each(all.in_use()) {
            let (id, _) = set?;
            deadline.step(selector.len())?;
            if all.matches(id, selector) {
                matched.insert(all.texts(id).collect(), true);
            }
        }
        let both = [known.collect(), matched];
        findings.compare(self.name, || self.describe(), "whether it matches", both);
        Ok(())
    }

    /// Compares the view on a partition with a count on the rebuilt state.
    fn compare_counts(
        &self,
        in_use: &PartitionInUse,
        [state, rebuilt]: [&State; 2],
        deadline: &Deadline<'_>,
        findings: &mut v1::VerifySnapshotResponse,
    ) -> Result<(), Stopped> {
        let key = in_use.partition.key();
        let query = Query {
            selector: self.cached.selector(),
            partition: key,
        };
        let counts = rebuilt.read_view(self.name, deadline).count(query)?;
        let subject = || format!("view of {} on {key:?}", self.describe());
        let view = self.cached.view();
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

/// Compares what states keep for all namespaces together.
fn compare_shared(both: [&State; 2], findings: &mut v1::VerifySnapshotResponse) {
    let order = || "node order".to_owned();
    findings.compare(
        "",
        order,
        "place of node",
        both.map(|it| places(it.nodes())),
    );
    let snapshot = || "snapshot".to_owned();
    let numbers = |state: &State| {
        let sizes = state.sizes;
        BTreeMap::from([
            ("nodes", sizes.nodes),
            ("pods", sizes.pods),
            ("label sets", sizes.label_sets),
            ("services, owners and other objects", sizes.owners),
        ])
    };
    findings.compare("", snapshot, "number of", both.map(numbers));
    findings.compare("", snapshot, "room of node", both.map(room));
    findings.compare("", snapshot, "nominated pod", both.map(nominated));
    findings.compare("", snapshot, "pods with the term", both.map(terms));
    findings.compare("", snapshot, "pods with storage", both.map(storage_use));
    findings.compare("", snapshot, "storage of", both.map(reserved_storage));
    findings.compare("", snapshot, "free volume", both.map(free_volumes));
}

/// The requests of the pods on each node that exists, and on others that pods name.
fn room(state: &State) -> BTreeMap<&str, &Requested> {
    let nodes = state.nodes();
    let named = state.requested.iter();
    let named = named.map(|(slot, requested)| (nodes.name(slot), requested));
    named
        .filter(|(_, requested)| requested.pods() > 0)
        .collect()
}

/// The nominated pods by their names, each with its node, uid, priority, labels and requests.
fn nominated(state: &State) -> BTreeMap<(&str, &str), impl PartialEq + Debug> {
    let all = state.shared.nominations.iter();
    let all = all.map(|(node, pod)| {
        let requests = pod.requests.as_deref();
        let counted = (node, &pod.uid, pod.priority, &pod.labels, requests);
        ((&*pod.namespace, &*pod.name), counted)
    });
    all.collect()
}

/// The number of pods on each node that have a term about other pods, of which some only count in scores.
fn terms(state: &State) -> BTreeMap<(bool, String, &str, &str), u32> {
    let tables = [
        (false, state.requested.anti_affinity()),
        (true, state.requested.scored_terms()),
    ];
    let held = tables.into_iter();
    let held = held.flat_map(|(is_scored, table)| table.iter().map(move |held| (is_scored, held)));
    let all = held.flat_map(|(is_scored, held)| {
        let term = json(&held.term().to_wire());
        let counts = held.counts();
        counts.map(move |(slot, pods)| {
            let node = state.nodes().name(slot);
            ((is_scored, term.clone(), held.own(), node), pods)
        })
    });
    all.collect()
}

/// The number of pods on each node that use a claim or a disk in the same way.
fn storage_use(state: &State) -> BTreeMap<(&str, String, &str), u32> {
    let all = state.requested.storage_use().iter();
    let all = all.map(|(key, slot, disk, pods)| {
        let node = state.nodes().name(slot);
        ((key, format!("{disk:?}"), node), pods)
    });
    all.collect()
}

/// The pods of reservations that use storage, each with its node.
fn reserved_storage(state: &State) -> BTreeMap<(&str, &str), bool> {
    let all = state.requested.storage_use().reserved();
    let all = all.map(|(slot, used)| ((&*used.name, state.nodes().name(slot)), true));
    all.collect()
}

/// The entries of the lists of volumes that claims can be bound to.
fn free_volumes(state: &State) -> BTreeMap<(&str, ListOf<'_>), bool> {
    let storage = &state.shared.cluster.storage;
    let is_current = |free: &&Arc<FreeVolume>| {
        let volume = storage.volume(&free.rank.name);
        volume.is_some_and(|volume| Arc::ptr_eq(volume, &free.volume))
    };
    let all = storage.lists().flat_map(|(of, list)| {
        let current = list.iter().filter(is_current);
        current.map(move |free| ((&*free.rank.name, of), true))
    });
    all.collect()
}

/// Compact JSON of a wire object.
fn json(wire: &impl serde::Serialize) -> String {
    serde_json::to_string(wire).unwrap_or_default()
}

/// The number of mismatches that are described; further ones are only counted.
const MAX_DESCRIBED: usize = 100;

impl v1::VerifySnapshotResponse {
    /// Compares what is kept about a subject with the recount. Texts are written only of what
    /// differs. `aspect` and a key name a value; a missing one is `none`.
    fn compare<K: Ord + Debug, V: PartialEq + Debug>(
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
            self.mismatch_count += 1;
            if self.mismatches.len() < MAX_DESCRIBED {
                let text =
                    |value: Option<&V>| value.map_or("none".to_owned(), |it| format!("{it:?}"));
                self.mismatches.push(v1::Mismatch {
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
