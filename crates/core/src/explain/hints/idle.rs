//! The hint about a hard constraint that refuses no node, whatever is counted.

use std::collections::BTreeSet;

use crate::explain::case::{Case, Hard, all_nodes};
use crate::explain::diagnosis::{Diagnosis, hint, suggest};
use crate::explain::insight::left_out_by;
use crate::explain::words::{plural, quoted};
use crate::matching::names::HOSTNAME;
use crate::matching::{Constraint, Policy};
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::snapshot::Stopped;

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
