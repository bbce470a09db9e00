//! Views, recounted from partitions and label sets that were themselves
//! recounted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Display};
use std::sync::Arc;

use super::finding::{Findings, Verification};
use super::nodes::{NodeList, PartitionRecount, describe, json};
use super::pods::{PodTally, Set, labels};
use crate::proto::v1;
use crate::recount::{LabelMap, selector_matches};
use crate::snapshot::{
    DomainId, Frozen, Kept, Namespace, Nodes, PartitionId, PartitionInUse, SelectorViews, View,
};

/// A selector of a namespace, and the label sets that it matches.
struct RecountedSelector<'a> {
    namespace: &'a str,
    selector: Option<v1::LabelSelector>,
    matched: Vec<&'a Set>,
    views: &'a [Arc<View>],
}

/// Compares all partitions and all live views.
pub fn compare(
    frozen: &Frozen,
    kept: &Kept,
    nodes: &NodeList,
    tallies: &[PodTally],
    report: &mut Verification,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let mut watched = Vec::new();
    for (((name, namespace), tally), watches) in
        frozen.namespaces.iter().zip(tallies).zip(&kept.views)
    {
        for watch in watches {
            if is_cancelled() {
                return None;
            }
            let selector = watch.selector.to_wire();
            let sets = tally.sets.iter();
            let matched = sets.filter(|(labels, _)| selector_matches(selector.as_ref(), labels));
            let matched: Vec<_> = matched.collect();
            compare_sets(name, namespace, watch, &matched, &mut report.findings);
            watched.push(RecountedSelector {
                namespace: name,
                selector,
                matched: matched.into_iter().map(|(_, set)| set).collect(),
                views: &watch.views,
            });
        }
    }
    let mut by_partition: HashMap<PartitionId, Vec<(&RecountedSelector<'_>, &View)>> =
        HashMap::new();
    for watched in &watched {
        for view in watched.views {
            let of = by_partition.entry(view.partition()).or_default();
            of.push((watched, view));
        }
    }
    for in_use in &kept.partitions {
        let part = nodes.part(in_use.partition.key());
        nodes.compare_partition(in_use, &part, frozen.nodes(), &mut report.findings);
        // A view of a partition that is gone is never read again.
        for (watched, view) in by_partition.remove(&in_use.id).unwrap_or_default() {
            if is_cancelled() {
                return None;
            }
            let counts = watched.count(&part, nodes);
            watched.compare(view, in_use, &counts, frozen.nodes(), &mut report.findings);
            report.views += 1;
        }
    }
    Some(())
}

/// Compares the label sets that a selector matches, as kept, with the recount.
fn compare_sets(
    name: &str,
    namespace: &Namespace,
    watch: &SelectorViews,
    matched: &[(&LabelMap, &Set)],
    findings: &mut Findings,
) {
    let selector = || describe_selector(watch.selector.to_wire().as_ref());
    let mut compared = findings.about(name, selector);
    let aspect = "number of label sets that it matches";
    compared.compare(aspect, watch.sets.len(), matched.len());
    let kept = namespace.label_sets();
    let known: HashSet<_> = watch.sets.iter().copied().collect();
    for (texts, _) in matched {
        let kept = kept.find_texts(texts).is_some_and(|id| known.contains(&id));
        compared.compare(known_to_match(texts), kept, true);
    }
    let recounted: HashSet<&LabelMap> = matched.iter().map(|(l, _)| *l).collect();
    for id in &watch.sets {
        let texts = labels(namespace, *id);
        compared.compare(known_to_match(&texts), true, recounted.contains(&texts));
    }
}

fn known_to_match(labels: &LabelMap) -> impl Display {
    fmt::from_fn(|f| write!(f, "whether it is known to match {}", json(labels)))
}

impl RecountedSelector<'_> {
    /// Counts the domains of a partition.
    fn count<'p>(&self, part: &PartitionRecount<'p>, nodes: &NodeList) -> BTreeMap<&'p str, u32> {
        let mut counts: BTreeMap<&str, u32> =
            part.domains.keys().map(|value| (*value, 0)).collect();
        for (node, pods) in self.matched.iter().flat_map(|set| &set.counted) {
            let domain = nodes.find(node).and_then(|node| part.domain(node));
            if let Some(domain) = domain {
                *counts.entry(domain).or_default() += pods;
            }
        }
        counts
    }

    /// Compares a view with the counts of its domains.
    fn compare(
        &self,
        view: &View,
        in_use: &PartitionInUse,
        counts: &BTreeMap<&str, u32>,
        nodes: &Nodes,
        findings: &mut Findings,
    ) {
        let subject = || {
            let selector = describe_selector(self.selector.as_ref());
            format!("view of {selector} on {}", describe(in_use.partition.key()))
        };
        let mut compared = findings.about(self.namespace, subject);
        let value = |id| in_use.topology.value(id, nodes);
        let ids: HashMap<&str, DomainId> = in_use
            .partition
            .domains()
            .map(|id| (value(id), id))
            .collect();
        for (value, recounted) in counts {
            let kept = ids.get(value).map_or(0, |id| view.count(*id));
            let aspect = format_args!("count of domain {value:?}");
            compared.compare(aspect, kept, *recounted);
        }
        // A value that is no domain must count nothing.
        for index in 0..view.counts().len() {
            let id = DomainId::at(index);
            if in_use.partition.eligible_nodes(id) == 0 {
                let aspect = format_args!("count of number {index}, which is no domain");
                compared.compare(aspect, view.count(id), 0);
            }
        }
        if let Some(levels) = view.levels() {
            // The number of domains at each count.
            let mut recounted: BTreeMap<u32, u32> = BTreeMap::new();
            for count in counts.values() {
                *recounted.entry(*count).or_default() += 1;
            }
            let aspect = |count: &u32| format!("domains that stand at {count}");
            compared.compare_counts(aspect, levels, &recounted);
        }
        let smallest = |count: Option<u32>| count.map_or("none".to_owned(), |n| n.to_string());
        let kept = smallest(view.smallest(&in_use.partition));
        let recounted = smallest(counts.values().copied().min());
        compared.compare("smallest count", kept, recounted);
    }
}

fn describe_selector(selector: Option<&v1::LabelSelector>) -> String {
    match selector {
        Some(selector) => format!("selector {}", json(selector)),
        None => "no selector".to_owned(),
    }
}
