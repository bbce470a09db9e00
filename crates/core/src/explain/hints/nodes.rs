//! Hints about labels of nodes that are missing or empty.

use crate::explain::case::{Case, JudgedNode, all_nodes};
use crate::explain::diagnosis::{Diagnosis, hint, title};
use crate::explain::words::{among, plural, so_many, verb};
use crate::proto::v1::hint::Kind;
use crate::snapshot::{NodeRef, ReadView};
use crate::spread::Active;

/// Finds candidates that lack the topology key. A hard constraint never admits them, and a soft
/// constraint does not rank them.
pub fn missing_key(case: &Case<'_>, active: &Active) -> Option<Diagnosis> {
    let key = &*active.constraint.topology_key;
    let lacks = |node: &&JudgedNode<'_>| node.node.label_text(key).is_none();
    let nodes = case.nodes.iter().filter(lacks);
    let names: Vec<&str> = nodes.map(|node| node.name).collect();
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
}

/// Finds nodes that have the key with an empty value, which is a domain of its own.
pub fn empty_value(case: &Case<'_>, active: &Active) -> Option<Diagnosis> {
    let counts = case.hard_at(active.index).map_or(String::new(), |hard| {
        format!(", with {}", plural(hard.count(""), "pod"))
    });
    empty_values(&case.read_view, active, "node", &counts)
}

/// Returns the hint about nodes of the domain `""`. `what` is the noun for a node, and `counts` a
/// clause with the count of the domain.
pub fn empty_values(
    read_view: &ReadView<'_>,
    active: &Active,
    what: &str,
    counts: &str,
) -> Option<Diagnosis> {
    let key = &*active.constraint.topology_key;
    let nodes = all_nodes(read_view).map(|(_, node)| node);
    let empty = nodes.filter(|node| node.label_text(key) == Some(""));
    let names: Vec<&str> = empty.map(NodeRef::name).collect();
    if names.is_empty() {
        return None;
    }
    let message = format!(
        "{} the label {key} with an empty value, which makes a domain of its own for {}{counts}: {}",
        so_many(names.len(), what, "has", "have"),
        title(active),
        among(&names),
    );
    Some(hint(Kind::EmptyValue, active, message).into())
}
