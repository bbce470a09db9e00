//! Labels of nodes that are easily mistaken.

use crate::explain::case::Case;
use crate::explain::diagnosis::{Diagnosis, hint, title};
use crate::explain::words::{among, plural, verb};
use crate::proto::v1::hint::Kind;
use crate::spread::Active;

/// Candidates that lack the topology key: a hard constraint never admits
/// them, a soft one does not rank them.
pub fn missing_key(case: &Case<'_>) -> Vec<Diagnosis> {
    let missing = |active: &Active| {
        let key = &*active.constraint.topology_key;
        let lacks =
            |node: &&super::super::case::JudgedNode<'_>| node.node.label_text(key).is_none();
        let names: Vec<&str> = case
            .nodes
            .iter()
            .filter(lacks)
            .map(|node| node.name)
            .collect();
        if names.is_empty() {
            return None;
        }
        let what = match active.constraint.is_hard() {
            true => "can never take the pod",
            false => "cannot be ranked by it",
        };
        let message = format!(
            "{} of {} {} the label {key} of {} and {what}: {}",
            names.len(),
            plural(case.nodes.len(), "node"),
            verb(names.len(), "lacks", "lack"),
            title(active),
            among(&names),
        );
        Some(hint(Kind::MissingKey, active, message).into())
    };
    case.constraints.all.iter().filter_map(missing).collect()
}

/// Nodes that have the key with an empty value are a domain of their own.
pub fn empty_value(case: &Case<'_>) -> Vec<Diagnosis> {
    let empty = |active: &Active| {
        let key = &*active.constraint.topology_key;
        let has = |node: crate::snapshot::NodeRef<'_>| node.label_text(key) == Some("");
        let named = case.all_nodes().filter(|(_, node)| has(*node));
        let names: Vec<&str> = named.map(|(_, node)| node.name()).collect();
        if names.is_empty() {
            return None;
        }
        let hard = case
            .hard
            .iter()
            .find(|hard| hard.active().index == active.index);
        let counts = hard.map_or(String::new(), |hard| {
            format!(", with {}", plural(hard.count(""), "pod"))
        });
        let message = format!(
            "{} {} the label {key} with an empty value, which makes a domain of its own for {}{counts}: {}",
            plural(names.len(), "node"),
            verb(names.len(), "has", "have"),
            title(active),
            among(&names),
        );
        Some(hint(Kind::EmptyValue, active, message).into())
    };
    case.constraints.all.iter().filter_map(empty).collect()
}
