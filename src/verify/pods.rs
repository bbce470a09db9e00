//! The tables of label sets, recounted from the pods of a namespace.

use std::collections::{BTreeMap, HashMap};

use super::finding::Findings;
use super::nodes::json;
use crate::proto::v1;
use crate::recount::{self, LabelMap, node_counted_on};
use crate::snapshot::{Frozen, LabelSetId, Namespace, Nodes};

/// The number of pods that are read between two checks whether to go on.
const STRIDE: usize = 10_000;

/// Reads each pod of all namespaces: its namespace, its name and its stored object. `None` as soon
/// as `is_cancelled` returns true.
pub fn each_stored(
    frozen: &Frozen,
    is_cancelled: &dyn Fn() -> bool,
    mut look: impl FnMut(&str, &str, &v1::Pod),
) -> Option<()> {
    for (namespace_name, namespace) in &frozen.namespaces {
        for (index, name) in namespace.pod_names().enumerate() {
            if index % STRIDE == 0 && is_cancelled() {
                return None;
            }
            if let Some(pod) = namespace.pod_to_wire(namespace_name, name, frozen.nodes()) {
                look(namespace_name, name, &pod);
            }
        }
    }
    Some(())
}

/// The pods of a namespace by label set.
pub struct PodTally {
    /// The label sets.
    pub sets: HashMap<LabelMap, Set>,
}

/// The facts about a label set.
#[derive(Default)]
pub struct Set {
    /// The number of pods that have it, counted or not.
    pods: u32,
    /// The number of counted pods that have it, by the name of the node that they count on.
    pub counted: BTreeMap<String, u32>,
}

impl PodTally {
    /// Counts the pods, one by one.
    pub fn of(
        name: &str,
        namespace: &Namespace,
        nodes: &Nodes,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let mut sets: HashMap<LabelMap, Set> = HashMap::new();
        for (index, pod) in namespace.pod_names().enumerate() {
            if index % STRIDE == 0 && is_cancelled() {
                return None;
            }
            let Some(pod) = namespace.counted_pod_to_wire(name, pod, nodes) else {
                continue;
            };
            let set = sets
                .entry(recount::labels(pod.metadata.as_ref()))
                .or_default();
            set.pods += 1;
            if let Some(node) = node_counted_on(&pod) {
                *set.counted.entry(node.to_owned()).or_default() += 1;
            }
        }
        Some(Self { sets })
    }

    /// Returns the number of pods.
    pub fn pods(&self) -> usize {
        self.sets.values().map(|set| set.pods as usize).sum()
    }

    /// Compares the kept tables.
    pub fn compare(
        &self,
        name: &str,
        namespace: &Namespace,
        nodes: &Nodes,
        findings: &mut Findings,
    ) {
        let kept = namespace.label_sets();
        let mut sets = findings.about(name, || "label sets".to_owned());
        for kept in [kept.in_use().count(), kept.len()] {
            sets.compare("number of label sets", kept, self.sets.len());
        }
        for (id, pods) in kept.in_use() {
            let labels = labels(namespace, id);
            let mut compared = findings.about(name, || format!("label set {}", json(&labels)));
            let none = Set::default();
            let set = self.sets.get(&labels).unwrap_or(&none);
            compared.compare("pods that have it", pods, set.pods);
            let found = kept.find_texts(&labels) == Some(id);
            compared.compare("whether it is found by its labels", found, true);
            let counted = kept.counts(id);
            let counted = counted
                .map(|(slot, pods)| (nodes.name(slot), pods))
                .collect();
            let recounted = set.counted.iter();
            let recounted = recounted.map(|(node, pods)| (&**node, *pods)).collect();
            let aspect = |node: &&str| format!("pods that count on node {node:?}");
            compared.compare_counts(aspect, &counted, &recounted);
        }
    }
}

/// The labels of a kept label set.
pub fn labels(namespace: &Namespace, id: LabelSetId) -> LabelMap {
    let texts = namespace.label_sets().texts(id);
    texts.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}
