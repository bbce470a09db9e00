//! What stands behind each constraint: the limit, what holds the minimum, and
//! which nodes are left out.

use std::collections::HashMap;

use super::case::{Case, Hard};
use super::diagnosis::{count, wire_index};
use crate::proto::v1;
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::left_out::Cause;
use crate::snapshot::{DomainKey, NodeRef, Query, partition};
use crate::spread::Active;

/// Names that an insight lists.
const LISTED: usize = 10;

/// The insights into all constraints, in order. Each names the first
/// `max_domains` domains.
pub fn all(case: &Case<'_>, max_domains: usize) -> Vec<v1::ConstraintInsight> {
    let scores = case.scores();
    let soft = case.soft_reports(&scores, max_domains);
    let of = |active: &Active| {
        let hard = case
            .hard
            .iter()
            .find(|hard| hard.active().index == active.index);
        let mut insight = v1::ConstraintInsight {
            constraint_index: wire_index(active),
            left_out: left_out(case, active),
            admitted_node_count: count(case.nodes.len()),
            ..Default::default()
        };
        let usable = usable_nodes(case, active);
        let domain = |value: &str, pods: i64| v1::DomainInsight {
            value: value.to_owned(),
            matching_pods_after: pods + active.self_match,
            usable_node_count: usable.get(value).copied().unwrap_or(0),
        };
        if let Some(hard) = hard {
            limits(case, hard, &mut insight);
            let listed = hard.report.domains.iter().take(max_domains);
            insight.domains = listed
                .map(|d| domain(d.tally.value, d.tally.matching_pods))
                .collect();
        } else if let Some(report) = soft.iter().find(|r| r.active.index == active.index) {
            let listed = report.domains.iter();
            insight.domains = listed
                .map(|d| domain(d.tally.value, d.tally.matching_pods))
                .collect();
        }
        insight
    };
    case.constraints.all.iter().map(of).collect()
}

/// The limit, and what the minimum is due to.
fn limits(case: &Case<'_>, hard: &Hard<'_>, insight: &mut v1::ConstraintInsight) {
    let lowest = hard.lowest();
    let minimum = match hard.report.domain_count {
        0 => Minimum::WithoutDomains,
        _ if hard.report.min_domains_unmet => Minimum::ByMinDomains,
        _ => Minimum::ByDomains,
    };
    let admitted = case.nodes.iter().filter(|node| case.admits(hard, node));
    insight.minimum = minimum.into();
    insight.minimum_domain_count = count(lowest.len());
    insight.minimum_domains = first(&lowest);
    insight.limit = hard.rule.limit();
    insight.admitted_node_count = count(admitted.count());
}

/// Candidates that pass the checks besides spread, by value.
fn usable_nodes<'a>(case: &Case<'a>, active: &Active) -> HashMap<&'a str, i64> {
    let mut usable = HashMap::new();
    for node in case.nodes.iter().filter(|node| node.check.is_none()) {
        if let Some(value) = node.node.label_text(&active.constraint.topology_key) {
            *usable.entry(value).or_default() += 1;
        }
    }
    usable
}

/// Nodes that a constraint does not look at, by the first cause.
fn left_out(case: &Case<'_>, active: &Active) -> Vec<v1::LeftOut> {
    const CAUSES: [Cause; 4] = [
        Cause::MissingKey,
        Cause::MissingOtherKey,
        Cause::NodeAffinity,
        Cause::Taints,
    ];
    let by_node = partition::Key::everywhere(DomainKey::Node);
    let counted = case.read_view.count(Query {
        selector: &active.selector,
        partition: &by_node,
    });
    let mut found = CAUSES.map(|cause| (cause, Vec::new(), 0));
    for (slot, node) in case.all_nodes() {
        if let Some(cause) = cause(active, node) {
            let entry = found.iter_mut().find(|(other, ..)| *other == cause);
            let (_, names, pods) = entry.expect("all causes are there");
            names.push(node.name());
            *pods += i64::from(counted.matching_pods(counted.domain_of(slot)));
        }
    }
    let found = found.into_iter().filter(|(_, names, _)| !names.is_empty());
    let wire = |(cause, names, matching_pods): (Cause, Vec<&str>, i64)| v1::LeftOut {
        cause: cause.into(),
        node_count: count(names.len()),
        nodes: first(&names),
        matching_pods,
    };
    found.map(wire).collect()
}

/// Why a constraint does not look at a node, if it does not.
fn cause(active: &Active, node: NodeRef<'_>) -> Option<Cause> {
    let eligibility = &active.partition.eligibility;
    if node.label_text(&active.constraint.topology_key).is_none() {
        // Score with Kubernetes' own defaults counts a missing key as "".
        return (!active.partition.missing_is_empty).then_some(Cause::MissingKey);
    }
    if !eligibility.has_required_keys(node) {
        return Some(Cause::MissingOtherKey);
    }
    if !eligibility.admits_affinity(node) {
        return Some(Cause::NodeAffinity);
    }
    (!eligibility.admits_taints(node)).then_some(Cause::Taints)
}

fn first(names: &[&str]) -> Vec<String> {
    let first = names.iter().take(LISTED);
    first.map(|name| (*name).to_owned()).collect()
}
