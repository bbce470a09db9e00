//! The tables of label sets, recounted from the pods of a namespace.

use std::collections::{BTreeMap, HashMap};

use super::finding::Findings;
use super::nodes::json;
use crate::recount::{self, LabelMap, node_counted_on};
use crate::snapshot::{LabelSetId, Namespace, Nodes};

/// How many pods are looked at between two checks whether to go on.
const STRIDE: usize = 10_000;

/// The pods of a namespace by label set.
pub struct PodTally(HashMap<LabelMap, Set>);

/// What is known of a label set.
#[derive(Default)]
pub struct Set {
    /// Pods that have it, counted or not.
    pods: u32,
    /// Pods with it that count, by the name of the node that they count on.
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
            let Some(pod) = namespace.counted_pod_to_wire(name, &pod.to_string(), nodes) else {
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
        Some(Self(sets))
    }

    /// The label sets.
    pub fn sets(&self) -> impl Iterator<Item = (&LabelMap, &Set)> {
        self.0.iter()
    }

    /// How many label sets there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many pods there are.
    pub fn pods(&self) -> usize {
        self.0.values().map(|set| set.pods as usize).sum()
    }

    /// Compares the tables that are kept.
    pub fn compare(
        &self,
        name: &str,
        namespace: &Namespace,
        nodes: &Nodes,
        findings: &mut Findings,
    ) {
        let kept = namespace.label_sets();
        let count = || "number of label sets".to_owned();
        let in_use = kept.in_use().count();
        let subject = || "label sets".to_owned();
        findings.compare(name, subject, count, in_use, self.len());
        findings.compare(name, subject, count, kept.len(), self.len());
        for (id, pods) in kept.in_use() {
            let labels = labels(namespace, id);
            let subject = || format!("label set {}", json(&labels));
            let none = Set::default();
            let set = self.0.get(&labels).unwrap_or(&none);
            let aspect = || "pods that have it".to_owned();
            findings.compare(name, subject, aspect, pods, set.pods);
            let aspect = || "whether it is found by its labels".to_owned();
            let found = kept.find_texts(&labels) == Some(id);
            findings.compare(name, subject, aspect, found, true);
            let counted = kept.counts(id);
            let counted = counted
                .map(|(slot, pods)| (nodes.name(slot), pods))
                .collect();
            let recounted = set.counted.iter();
            let recounted = recounted.map(|(node, pods)| (&**node, *pods)).collect();
            let aspect = |node: &str| format!("pods that count on node {node:?}");
            findings.compare_counts(name, subject, aspect, &counted, &recounted);
        }
    }
}

/// The labels of a label set that is kept.
pub fn labels(namespace: &Namespace, id: LabelSetId) -> LabelMap {
    let texts = namespace.label_sets().texts(id);
    texts.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}
