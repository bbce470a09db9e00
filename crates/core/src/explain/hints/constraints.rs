//! Hints about a constraint itself: surprising effects that do not depend on nodes or other pods, one that
//! refuses no node, two that exclude each other, and labels of nodes that are missing or empty.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::case::{Case, Hard, JudgedNode, all_nodes, values};
use crate::explain::insight::left_out_by;
use crate::explain::words::{
    Diagnosis, among, hint, joined, plural, quoted, so_many, suggest, title, verb,
};
use crate::matching::names::HOSTNAME;
use crate::matching::{Constraint, Policy, Selector, selector_text};
use crate::proto::v1;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::snapshot::{NodeRef, ReadView, Stopped};
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

/// The keys that are suggested in place of one with a single value, the best first.
const BETTER_KEYS: [&str; 2] = ["topology.kubernetes.io/zone", HOSTNAME];

/// Finds a constraint that counts one domain only, so that the skew is never more than 1, or of which
/// each pod of a DaemonSet counts its own node.
pub fn one_domain(case: &Case<'_>, hard: &Hard<'_>) -> Result<Option<Diagnosis>, Stopped> {
    let constraint = &hard.active().constraint;
    if hard.active().counts_own_node {
        return of_daemon_set(case, hard).map(Some);
    }
    let [only] = &*hard.report.domains else {
        return Ok(None);
    };
    if constraint.min_domains.unwrap_or(1) > 1 {
        return Ok(None);
    }
    let domain = format!("{}={}", hard.key(), quoted(only.tally.value));
    let values = all_nodes(&case.read_view).filter_map(|(_, node)| node.label_text(hard.key()));
    let values: BTreeSet<&str> = values.collect();
    let said = match values.len() {
        1 => with_one_value(case, hard, &domain)?,
        _ => with_others_left_out(case, hard, &domain, values.len() - 1)?,
    };
    Ok(Some(said))
}

/// The hint whose message goes on with the number of nodes that the constraint admits after a change,
/// which it suggests.
fn suggesting(
    case: &Case<'_>,
    hard: &Hard<'_>,
    message: String,
    change: impl FnOnce(&mut Constraint),
) -> Result<Diagnosis, Stopped> {
    let revised = case.revised(hard.active(), |constraint, _| change(constraint));
    let after = case.admitted_with(&revised)?.len();
    let message = format!("{message} {}", plural(after, "node"));
    let mut hint = hint(Kind::OneDomain, hard.active(), message);
    suggest(&mut hint, &revised.all[hard.active().index], after);
    Ok(hint.into())
}

/// The hint about the pods of a DaemonSet.
fn of_daemon_set(case: &Case<'_>, hard: &Hard<'_>) -> Result<Diagnosis, Stopped> {
    let message = format!(
        "{} counts for each pod of the DaemonSet only the node that the pod is tied to \
         (nodeAffinityPolicy: Honor), so it refuses no node and does nothing. With nodeAffinityPolicy: \
         Ignore it would count all nodes, and a pod could go to",
        hard.title(),
    );
    suggesting(case, hard, message, |constraint| {
        constraint.node_affinity_policy = Policy::Ignore;
    })
}

/// The hint about a key that has one value on all nodes.
fn with_one_value(case: &Case<'_>, hard: &Hard<'_>, domain: &str) -> Result<Diagnosis, Stopped> {
    let is_used = |key: &str| case.hard.iter().any(|other| other.key() == key);
    let better = BETTER_KEYS.iter().find(|key| {
        let values = all_nodes(&case.read_view).filter_map(|(_, node)| node.label_text(key));
        !is_used(key) && values.collect::<BTreeSet<_>>().len() > 1
    });
    let mut message = format!(
        "{} has one domain only, {domain}: no node has another value, so there is nothing to spread over, \
         and it refuses no node that has the key",
        hard.title(),
    );
    match better {
        Some(key) => {
            message.push_str(&format!(
                ". Over {key} it would spread the pods; this one could go to"
            ));
            suggesting(case, hard, message, |it| it.topology_key = (*key).into())
        }
        None => {
            message.push_str(&format!(". {}; this one could go to", two_domains(hard)));
            suggesting(case, hard, message, |it| it.min_domains = Some(2))
        }
    }
}

/// Says what `minDomains` would change.
fn two_domains(hard: &Hard<'_>) -> String {
    let max_skew = hard.active().constraint.max_skew;
    format!("minDomains: 2 would have it refuse more than maxSkew {max_skew} there")
}

/// The hint about a constraint that counts in one of several values, because the nodes with the others
/// are left out.
fn with_others_left_out(
    case: &Case<'_>,
    hard: &Hard<'_>,
    domain: &str,
    others: usize,
) -> Result<Diagnosis, Stopped> {
    let mut by_affinity = false;
    for (_, node) in all_nodes(&case.read_view) {
        by_affinity |= left_out_by(case, hard.active(), node)? == Some(Cause::NodeAffinity);
    }
    let (why, policy) = match by_affinity {
        true => ("the pod's node affinity", "nodeAffinityPolicy"),
        false => ("their taints", "nodeTaintsPolicy"),
    };
    let message = format!(
        "{} counts one domain only, {domain}: the nodes of {} are left out by {why} ({policy}: Honor), \
         so it refuses no node. {}; {policy}: Ignore would count the others too, and the pod could then \
         go to",
        hard.title(),
        plural(others, "other domain"),
        two_domains(hard),
    );
    suggesting(case, hard, message, |constraint| match by_affinity {
        true => constraint.node_affinity_policy = Policy::Ignore,
        false => constraint.node_taints_policy = Policy::Ignore,
    })
}

/// If no node is feasible, finds the first pair of hard constraints that each admit nodes, but no
/// node together.
pub fn conflict(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    if !case.is_stuck() {
        return Ok(Vec::new());
    }
    let admitted = |hard: &Hard<'_>| -> Vec<bool> {
        let admits = |node: &JudgedNode<'_>| case.passes_checks(node) && case.admits(hard, node);
        case.nodes.iter().map(admits).collect()
    };
    let all: Vec<(&Hard<'_>, Vec<bool>)> = case
        .hard
        .iter()
        .map(|hard| (hard, admitted(hard)))
        .filter(|(_, admitted)| admitted.contains(&true))
        .collect();
    for (i, (one, admits)) in all.iter().enumerate() {
        for (other, also) in &all[i + 1..] {
            case.read_view.deadline.step(admits.len())?;
            if !admits.iter().zip(also).any(|(one, other)| *one && *other) {
                let message = format!(
                    "{} admits {}, and {} admits {}: each can be satisfied, but no node \
                     satisfies both",
                    one.title(),
                    where_to(case, one, admits),
                    other.title(),
                    where_to(case, other, also),
                );
                let mut hint = hint(Kind::Conflict, one.active(), message);
                hint.other_constraint_index = other.active().wire_index();
                return Ok(vec![hint.into()]);
            }
        }
    }
    Ok(Vec::new())
}

/// The nodes that a constraint admits: `3 nodes (zone-a, zone-b)`.
fn where_to(case: &Case<'_>, hard: &Hard<'_>, admits: &[bool]) -> String {
    let nodes = case.nodes.iter().zip(admits).filter(|(_, admits)| **admits);
    let count = admits.iter().filter(|admits| **admits).count();
    let values = values(nodes.map(|(node, _)| node), hard.key());
    format!("{} ({values})", plural(count, "node"))
}

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
