//! The lint rules about affinity between pods.

use super::finding::Said;
use super::rule::LintRule;
use crate::manifest::{ReadTemplate, Template};
use crate::matching::{Path, PodAffinity, PodTerm, Selector, Violations};
use crate::snapshot::Limits;

/// Finds terms of affinity that no node can meet, and terms of anti-affinity that keep no pod away.
pub(super) fn idle_terms(template: &Template, read: &ReadTemplate) -> Vec<Said> {
    if read.policy.is_some() {
        return Vec::new();
    }
    let pod = &read.pod;
    let metadata = pod.metadata.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    // Faults of the terms are ignored here: `checks` reports them.
    let faults = &mut Violations::default();
    let limits = Limits::default();
    let affinity = &PodAffinity::compile(&metadata, &spec, &limits, Path::root(""), faults);
    let near = affinity.near.iter().enumerate().filter_map(|(index, term)| {
        // No node meets both a term of affinity and an equal term of anti-affinity.
        let why = match affinity.apart.iter().position(|other| other == term) {
            _ if !term.selector.can_match() => reason(term).to_owned(),
            Some(other) => format!(
                "podAntiAffinity, term {other}, keeps the pod from the same pods in the same {}",
                term.topology_key
            ),
            None => return None,
        };
        Some(Said {
            rule: LintRule::UnmetAffinity,
            field: field(template, "podAffinity", index),
            message: format!("no node can meet this term: {why}"),
        })
    });
    let apart = affinity.apart.iter().enumerate();
    let apart = apart.filter(|(_, term)| !term.selector.can_match());
    let apart = apart.map(|(index, term)| Said {
        rule: LintRule::IdleAntiAffinity,
        field: field(template, "podAntiAffinity", index),
        message: format!("this term keeps no pod away: {}", reason(term)),
    });
    near.chain(apart).collect()
}

/// The reason why a selector matches no pod.
fn reason(term: &PodTerm) -> &'static str {
    match term.selector {
        Selector::Nothing => "without a labelSelector it matches no pod",
        Selector::All(_) => "its labelSelector contradicts itself and matches no pod",
    }
}

fn field(template: &Template, rules: &str, index: usize) -> String {
    let list = "requiredDuringSchedulingIgnoredDuringExecution";
    template.field(&format!("spec.affinity.{rules}.{list}[{index}]"))
}
