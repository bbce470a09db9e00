//! Hints about surprising effects of a constraint that do not depend on nodes or other pods.

use std::collections::BTreeMap;

use crate::explain::diagnosis::{hint, title};
use crate::explain::words::joined;
use crate::matching::{Selector, selector_text};
use crate::proto::v1;
use crate::proto::v1::hint::Kind;
use crate::spread::Active;

/// The hints about a constraint of a pod with `labels` that are true of any cluster.
pub fn always(active: &Active, labels: &BTreeMap<String, String>) -> Vec<v1::Hint> {
    let is_soft = !active.constraint.is_hard();
    let hints = [
        mismatch(active, labels),
        empty(active),
        is_soft.then(|| no_limit(active)),
    ];
    hints.into_iter().flatten().collect()
}

/// Finds a selector that does not match the pod itself. Placing the pod changes no count, so the
/// next pod goes to the same place.
pub fn mismatch(active: &Active, labels: &BTreeMap<String, String>) -> Option<v1::Hint> {
    let wire = active.selector.to_wire()?;
    if active.self_match > 0 {
        return None;
    }
    let mut message = format!(
        "{} counts pods with {}, and the pod itself {}: it is not counted where it goes, so pods \
         like it are not spread",
        title(active),
        selector_text(&wire),
        differences(&wire, labels),
    );
    let topology_key = &*active.constraint.topology_key;
    let mut used = keys(&wire);
    if used.any(|key| key == topology_key) && !labels.contains_key(topology_key) {
        message.push_str(&format!(
            ". {topology_key} is a label of nodes, and a labelSelector selects pods: topologyKey alone \
             names the domains"
        ));
    }
    Some(hint(Kind::SelfMismatch, active, message))
}

/// The keys that a selector uses.
fn keys(selector: &v1::LabelSelector) -> impl Iterator<Item = &str> {
    let expressions = selector.match_expressions.iter().map(|it| &*it.key);
    selector
        .match_labels
        .keys()
        .map(|key| &**key)
        .chain(expressions)
}

/// The keys that a selector uses, each with the pod's value.
pub(super) fn differences(
    selector: &v1::LabelSelector,
    labels: &BTreeMap<String, String>,
) -> String {
    let pairs = selector.match_labels.iter();
    let wrong = pairs.filter(|(key, value)| labels.get(*key) != Some(*value));
    let mut keys: Vec<&str> = wrong.map(|(key, _)| &**key).collect();
    keys.extend(selector.match_expressions.iter().map(|e| &*e.key));
    keys.sort_unstable();
    keys.dedup();
    let said = keys.into_iter().map(|key| match labels.get(key) {
        Some(value) => format!("has {key}={value}"),
        None => format!("has no label {key}"),
    });
    joined(&said.collect::<Vec<_>>())
}

/// Finds an empty or absent selector, which counts no pod.
pub fn empty(active: &Active) -> Option<v1::Hint> {
    let why = match &active.selector {
        Selector::Nothing => "has no labelSelector, which matches no pod",
        selector if selector.is_empty() => {
            "has an empty labelSelector, for which kube-scheduler counts no pod"
        }
        Selector::All(_) => return None,
    };
    let message = format!(
        "{} {why}: every domain counts 0 pods, so it spreads nothing",
        title(active)
    );
    Some(hint(Kind::EmptySelector, active, message))
}

/// Says of a `ScheduleAnyway` constraint that it ranks nodes and never refuses one.
pub fn no_limit(active: &Active) -> v1::Hint {
    let message = format!(
        "{} is ScheduleAnyway: it orders the nodes and never keeps the pod off one; its maxSkew \
         {} is no limit",
        title(active),
        active.constraint.max_skew,
    );
    hint(Kind::Soft, active, message)
}
