//! Affinity between pods: each term is compared with each pod on each node.

use super::answers::Rejection;
use super::cluster::Cluster;
use super::room::node_taken;
use super::rules::{LabelMap, labels, name, namespace, selector_matches};
use evenkeel::proto::v1::{
    Affinity, LabelSelector, LabelSelectorRequirement, Node, Pod, PodAffinity, PodAffinityTerm,
};

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

impl Cluster {
    /// The rejection of a node by affinity between pods, with other pods nominated to that node.
    pub(super) fn pod_affinity_refusal(
        &self,
        pod: &Pod,
        node: &Node,
        coming: &[&Pod],
    ) -> Option<Rejection> {
        let near = merged(pod, terms(pod, |affinity| &affinity.pod_affinity));
        let apart = merged(pod, terms(pod, |affinity| &affinity.pod_anti_affinity));
        // kube-scheduler skips its plugin, and so the nominated pods, where the incoming pod has
        // no term and no pod on a node keeps it away from a domain.
        let mut there = self.pods_on_nodes();
        let mut keys = there
            .iter()
            .flat_map(|(other, on)| self.keys_kept_from(other, on, pod));
        if near.is_empty() && apart.is_empty() && keys.next().is_none() {
            return None;
        }
        there.extend(coming.iter().map(|pod| (*pod, node)));
        let here = labels(node.metadata.as_ref());
        // The pods on nodes with the same value of the key as this node.
        let beside = |key: &str| {
            let value = here.get(key).cloned();
            let beside = there.iter().filter(move |(_, on)| {
                let value_there = labels(on.metadata.as_ref()).get(key).cloned();
                value.is_some() && value == value_there
            });
            beside.map(|(pod, _)| *pod).collect::<Vec<&Pod>>()
        };
        let joins = |other: &Pod| near.iter().all(|term| self.wants(pod, term, other));
        let has_keys = near
            .iter()
            .all(|term| here.contains_key(&term.topology_key));
        let is_joined = near
            .iter()
            .all(|term| beside(&term.topology_key).into_iter().any(joins));
        let is_alone = !there.iter().any(|(other, on)| {
            let on = labels(on.metadata.as_ref());
            joins(other) && near.iter().any(|term| on.contains_key(&term.topology_key))
        });
        let is_first = has_keys && is_alone && joins(pod);
        if !(near.is_empty() || is_joined || is_first) {
            return Some(Rejection::unresolvable(AFFINITY));
        }
        let meets = |term: &PodAffinityTerm| {
            let mut beside = beside(&term.topology_key).into_iter();
            beside.any(|other| self.wants(pod, term, other))
        };
        if apart.iter().any(meets) {
            return Some(Rejection::resolvable(ANTI_AFFINITY));
        }
        let kept_away = there.iter().any(|(other, on)| {
            let mut keys = self.keys_kept_from(other, on, pod);
            keys.any(|(key, value)| here.get(key) == Some(&value))
        });
        kept_away.then(|| Rejection::resolvable(EXISTING))
    }

    /// The labels of the node `on` whose domains the pod `other` keeps an incoming pod away from.
    fn keys_kept_from<'a>(
        &'a self,
        other: &'a Pod,
        on: &Node,
        incoming: &'a Pod,
    ) -> impl Iterator<Item = (&'a String, String)> {
        let on = labels(on.metadata.as_ref());
        let terms = terms(other, |affinity| &affinity.pod_anti_affinity).iter();
        let against = terms.filter(move |term| self.shuns(other, term, incoming));
        against
            .filter_map(move |term| Some((&term.topology_key, on.get(&term.topology_key)?.clone())))
    }

    /// The pods that have not finished, each with the known node that it is on.
    fn pods_on_nodes(&self) -> Vec<(&Pod, &Node)> {
        let node = |name_of: &str| {
            let mut nodes = self.nodes.iter();
            nodes.find(|node| name(node.metadata.as_ref()) == name_of)
        };
        let there = self.pods.iter();
        there
            .filter_map(|pod| Some((pod, node(node_taken(pod)?)?)))
            .collect()
    }

    /// Returns whether a term of an incoming pod covers another pod. A namespace selector finds
    /// only namespaces that have an object; `{}` finds all. Until 1.36, a selector that accepts a
    /// namespace without labels finds all, too.
    fn wants(&self, incoming: &Pod, term: &PodAffinityTerm, other: &Pod) -> bool {
        let of = namespace(other.metadata.as_ref());
        let selector = term.namespace_selector.as_ref();
        let selected = match self.labels_of_namespace(of) {
            Some(labels) => selector_matches(selector, &labels),
            None => selector == Some(&LabelSelector::default()),
        };
        let all = self.minor() <= 36 && selector_matches(selector, &LabelMap::new());
        is_in_scope(incoming, term, other, selected || all) && matches(term, other)
    }

    /// Returns whether a term of a running pod covers an incoming pod. A namespace without an
    /// object counts as one without labels.
    fn shuns(&self, running: &Pod, term: &PodAffinityTerm, incoming: &Pod) -> bool {
        let of = namespace(incoming.metadata.as_ref());
        let labels = self.labels_of_namespace(of).unwrap_or_default();
        let selected = selector_matches(term.namespace_selector.as_ref(), &labels);
        is_in_scope(running, term, incoming, selected) && matches(term, incoming)
    }

    fn labels_of_namespace(&self, of: &str) -> Option<LabelMap> {
        let mut all = self.namespaces.iter();
        let found = all.find(|namespace| name(namespace.metadata.as_ref()) == of);
        found.map(|namespace| labels(namespace.metadata.as_ref()))
    }
}

/// Returns whether a term of a pod covers the namespace of another: it names that namespace or
/// selects it, or has neither names nor a selector and both pods are in one namespace.
fn is_in_scope(pod: &Pod, term: &PodAffinityTerm, other: &Pod, selected: bool) -> bool {
    let [own, of] = [pod, other].map(|pod| namespace(pod.metadata.as_ref()));
    match term.namespaces.is_empty() && term.namespace_selector.is_none() {
        true => own == of,
        false => selected || term.namespaces.iter().any(|name| name == of),
    }
}

fn matches(term: &PodAffinityTerm, pod: &Pod) -> bool {
    selector_matches(term.label_selector.as_ref(), &labels(pod.metadata.as_ref()))
}

fn terms(pod: &Pod, of: impl Fn(&Affinity) -> &Option<PodAffinity>) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let rules = affinity.and_then(|affinity| of(affinity).as_ref());
    rules.map_or(&[], |rules| {
        &rules.required_during_scheduling_ignored_during_execution
    })
}

/// A pod with its terms merged as the API server does when it creates the pod.
pub fn with_merged_terms(pod: &Pod) -> Pod {
    let mut created = pod.clone();
    let affinity = created
        .spec
        .as_mut()
        .and_then(|spec| spec.affinity.as_mut());
    if let Some(affinity) = affinity {
        let rules = [&mut affinity.pod_affinity, &mut affinity.pod_anti_affinity];
        for rules in rules.into_iter().flatten() {
            let terms = &mut rules.required_during_scheduling_ignored_during_execution;
            *terms = merged(pod, terms);
        }
    }
    created
}

/// Terms with the pod's values for their `matchLabelKeys` and `mismatchLabelKeys`, as the API
/// server merges them. It does so once: terms are merged already if the pod has a uid, or a
/// selector has a single value for a key.
fn merged(pod: &Pod, terms: &[PodAffinityTerm]) -> Vec<PodAffinityTerm> {
    let own = labels(pod.metadata.as_ref());
    let is_created = pod.metadata.as_ref().is_some_and(|m| !m.uid.is_empty());
    let merge = |term: &PodAffinityTerm| {
        let mut term = term.clone();
        let Some(selector) = term.label_selector.as_mut().filter(|_| !is_created) else {
            return term;
        };
        let lists = [
            ("In", &term.match_label_keys),
            ("NotIn", &term.mismatch_label_keys),
        ];
        for (operator, keys) in lists {
            for key in keys.iter().filter(|key| own.contains_key(*key)) {
                let has_one = |e: &LabelSelectorRequirement| {
                    e.key == *key && e.operator == "In" && e.values.len() == 1
                };
                if operator == "NotIn" || !selector.match_expressions.iter().any(has_one) {
                    selector.match_expressions.push(LabelSelectorRequirement {
                        key: key.clone(),
                        operator: operator.to_owned(),
                        values: vec![own[key].clone()],
                    });
                }
            }
        }
        term
    };
    terms.iter().map(merge).collect()
}
