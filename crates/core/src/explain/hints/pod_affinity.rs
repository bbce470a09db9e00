//! Hints about terms of affinity between pods that keep the pod off nodes.

use std::collections::BTreeSet;

use crate::explain::case::{Case, JudgedNode, value_list};
use crate::explain::diagnosis::{Diagnosis, general_hint};
use crate::explain::words::{among, plural};
use crate::matching::{PodTerm, Selector, selector_text};
use crate::proto::v1::hint::Kind;
use crate::snapshot::{HeldTerm, Stopped};
use crate::spread::Reason;

/// Returns a hint for each term that keeps the pod off a node which passes all checks before it.
pub fn pod_affinity(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    let Some(terms) = &case.filter.pod_terms else {
        return Ok(Vec::new());
    };
    let refused = |by: Reason| -> Vec<&JudgedNode<'_>> {
        let by_it = |node: &&JudgedNode<'_>| {
            let refusal = node.refusal.as_ref();
            refusal.is_some_and(|refusal| refusal.reason == by && refusal.nominated_pods == 0)
        };
        case.nodes.iter().filter(by_it).collect()
    };
    let mut found = Vec::new();
    let nodes = refused(Reason::PodAffinity);
    for (term, there) in terms.near_domains() {
        case.read_view.deadline.step(nodes.len())?;
        let outside = |node: &&&JudgedNode<'_>| {
            let value = node.node.label_text(&term.topology_key);
            value.is_none_or(|value| !there.contains(value))
        };
        let outside = nodes.iter().filter(outside).count();
        if outside > 0 {
            found.push(missing(term, &there, outside));
        }
    }
    let nodes = refused(Reason::PodAntiAffinity);
    for (term, there) in terms.apart_domains() {
        case.read_view.deadline.step(nodes.len())?;
        found.extend(met(term, &there, &nodes));
    }
    let nodes = refused(Reason::ExistingAntiAffinity);
    for held in case.keeping_away()? {
        case.read_view
            .deadline
            .step(nodes.len() + held.node_count())?;
        found.extend(kept_away(case, held, &nodes));
    }
    let hints = found.into_iter();
    let hints = hints.map(|message| general_hint(Kind::PodAffinity, message));
    Ok(hints.map(Diagnosis::from).collect())
}

/// Describes a term of the pod's affinity that only these domains meet.
fn missing(term: &PodTerm, there: &BTreeSet<&str>, nodes: usize) -> String {
    let key = &term.topology_key;
    let place = match there.is_empty() {
        true => format!("no node with the label {key} has one in its domain"),
        false => format!("such pods are in {}", among(&list(there))),
    };
    format!(
        "its podAffinity wants {} in the same {key}, and {place}: that refuses {}",
        pods_of(term),
        plural(nodes, "node"),
    )
}

/// Describes a term of the pod's anti-affinity that matches pods in these domains.
fn met(term: &PodTerm, there: &BTreeSet<&str>, nodes: &[&JudgedNode<'_>]) -> Option<String> {
    let key = &term.topology_key;
    let inside = |node: &&&JudgedNode<'_>| {
        let value = node.node.label_text(key);
        value.is_some_and(|value| there.contains(value))
    };
    let inside: Vec<&JudgedNode<'_>> = nodes.iter().filter(inside).copied().collect();
    (!inside.is_empty()).then(|| {
        format!(
            "its podAntiAffinity keeps it from {} in the same {key}, which are in {}: that refuses \
             {}",
            pods_of(term),
            value_list(inside.iter().copied(), key),
            plural(inside.len(), "node"),
        )
    })
}

/// Describes a term of running pods that keeps the pod away.
fn kept_away(case: &Case<'_>, held: &HeldTerm, nodes: &[&JudgedNode<'_>]) -> Option<String> {
    let key = &held.term().topology_key;
    let on: Vec<(&str, u32)> = held
        .counts()
        .filter_map(|(slot, pods)| {
            let node = case.read_view.nodes.get(slot)?;
            Some((node.label_text(key)?, pods))
        })
        .collect();
    let there: BTreeSet<&str> = on.iter().map(|(value, _)| *value).collect();
    let inside = |node: &&&JudgedNode<'_>| {
        let value = node.node.label_text(key);
        value.is_some_and(|value| there.contains(value))
    };
    let inside = nodes.iter().filter(inside).count();
    let pods: u32 = on.iter().map(|(_, pods)| pods).sum();
    (inside > 0).then(|| {
        let whose = match held.own() {
            "" => String::new(),
            namespace => format!(" of namespace {namespace}"),
        };
        format!(
            "{}{whose} in {} (by {key}) {} anti-affinity to {}, which it is one of: that refuses {}",
            plural(pods, "pod"),
            among(&list(&there)),
            if pods == 1 { "has" } else { "have" },
            pods_of(held.term()),
            plural(inside, "node"),
        )
    })
}

/// Describes the pods that a term covers.
fn pods_of(term: &PodTerm) -> String {
    let pods = match term.selector.to_wire() {
        None => "no pods (it has no labelSelector)".to_owned(),
        Some(selector) => match &*selector_text(&selector) {
            "" => "all pods".to_owned(),
            text => format!("pods with {text}"),
        },
    };
    let namespaces: Vec<&str> = term.namespaces.iter().map(|name| &**name).collect();
    let selected = match &term.namespace_selector {
        Selector::Nothing => None,
        selector if selector.is_empty() => Some("all namespaces".to_owned()),
        selector => {
            let text = selector.to_wire().map(|wire| selector_text(&wire));
            Some(format!("namespaces with {}", text.unwrap_or_default()))
        }
    };
    let named = (!namespaces.is_empty()).then(|| among(&namespaces));
    match (named, selected) {
        (None, None) => pods,
        (Some(one), None) | (None, Some(one)) => format!("{pods} in {one}"),
        (Some(named), Some(selected)) => format!("{pods} in {named} or {selected}"),
    }
}

fn list<'v>(values: &BTreeSet<&'v str>) -> Vec<&'v str> {
    values.iter().copied().collect()
}
