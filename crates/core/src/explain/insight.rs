//! Insights into each constraint: its limit, the domains that have the minimum, and the nodes that
//! it does not count.

use std::collections::BTreeMap;

use super::case::{Case, Hard, all_nodes};
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::left_out::Cause;
use crate::proto::{count, v1};
use crate::snapshot::{DomainCount, DomainKey, NodeRef, Query, Stopped, partition};
use crate::spread::{Active, Report};

/// The number of names that an insight lists.
const LISTED: usize = 10;

/// The insights into all constraints, in order. Each names the first
/// `max_domains` domains.
pub fn all(case: &Case<'_>, max_domains: usize) -> Result<Vec<v1::ConstraintInsight>, Stopped> {
    let scores = case.scores()?;
    let soft = case.soft_reports(&scores, max_domains);
    let of = |active: &Active| {
        case.step()?;
        let mut insight = v1::ConstraintInsight {
            constraint_index: active.wire_index(),
            left_out: left_out(case, active)?,
            admitted_node_count: count(case.nodes.len()),
            ..Default::default()
        };
        let hard = case.hard_at(active.index);
        if let Some(hard) = hard {
            limits(case, hard, &mut insight);
        }
        let report = hard.map(|hard| &hard.report);
        let report = report.or_else(|| soft.iter().find(|r| r.active.index == active.index));
        if let Some(report) = report {
            // The candidates that pass the checks other than spread.
            let usable = case.nodes.iter().filter(|node| node.check.is_none());
            let usable = usable.map(|node| node.node);
            insight.domains = domains(report, max_domains, active.self_match, usable);
        }
        Ok(insight)
    };
    case.constraints.all.iter().map(of).collect()
}

/// Writes the limit, and the reason for the minimum.
fn limits(case: &Case<'_>, hard: &Hard<'_>, insight: &mut v1::ConstraintInsight) {
    let lowest = hard.report.lowest();
    let minimum = match hard.report.domain_count {
        0 => Minimum::WithoutDomains,
        _ if hard.report.min_domains_unmet => Minimum::ByMinDomains,
        _ => Minimum::ByDomains,
    };
    let admitted = case.nodes.iter().filter(|node| case.admits(hard, node));
    insight.minimum = minimum.into();
    insight.minimum_domain_count = count(lowest.len());
    insight.minimum_domains = first(&lowest);
    insight.limit = match hard.active().counts_own_node {
        true => 0,
        false => hard.rule.limit(),
    };
    insight.admitted_node_count = count(admitted.count());
}

/// The first domains of a report, each with its count after `more` pods, and its number of usable
/// nodes.
pub fn domains<'n>(
    report: &Report<'_>,
    max_domains: usize,
    more: i64,
    usable: impl Iterator<Item = NodeRef<'n>>,
) -> Vec<v1::DomainInsight> {
    let by_value = report.nodes_in_domains(usable);
    let domain = |tally: DomainCount<'_>| v1::DomainInsight {
        value: tally.value.to_owned(),
        matching_pods_after: tally.matching_pods + more,
        usable_node_count: by_value.get(tally.value).copied().unwrap_or(0),
    };
    let listed = report.domains.iter().take(max_domains);
    listed.map(|listed| domain(listed.tally)).collect()
}

/// The nodes on which a constraint does not count pods, by the first cause.
fn left_out(case: &Case<'_>, active: &Active) -> Result<Vec<v1::LeftOut>, Stopped> {
    let by_node = partition::Key::everywhere(DomainKey::Node);
    let counted = case.read_view.count(Query {
        selector: active.counted(),
        partition: &by_node,
    })?;
    let mut found: BTreeMap<Cause, (Vec<&str>, i64)> = BTreeMap::new();
    for (slot, node) in all_nodes(&case.read_view) {
        if let Some(cause) = left_out_by(case, active, node)? {
            let (names, pods) = found.entry(cause).or_default();
            names.push(node.name());
            *pods += i64::from(counted.matching_pods(counted.domain_of(slot)));
        }
    }
    let wire = |(cause, (names, matching_pods)): (Cause, (Vec<&str>, i64))| v1::LeftOut {
        cause: cause.into(),
        node_count: count(names.len()),
        nodes: first(&names),
        matching_pods,
    };
    Ok(found.into_iter().map(wire).collect())
}

/// The cause why a constraint does not count pods on a node; `None` if it does.
pub fn left_out_by(
    case: &Case<'_>,
    active: &Active,
    node: NodeRef<'_>,
) -> Result<Option<Cause>, Stopped> {
    let eligibility = &active.partition.eligibility;
    case.read_view.deadline.step(eligibility.steps_per_node())?;
    Ok(
        if node.label_text(&active.constraint.topology_key).is_none() {
            // With Kubernetes' own default constraints, Score treats a missing key as the value "".
            (!active.partition.missing_is_empty).then_some(Cause::MissingKey)
        } else if !eligibility.has_required_keys(node) {
            Some(Cause::MissingOtherKey)
        } else if !eligibility.admits_affinity(node) {
            Some(Cause::NodeAffinity)
        } else {
            (!eligibility.admits_taints(node)).then_some(Cause::Taints)
        },
    )
}

/// The names that an insight lists.
pub fn first(names: &[&str]) -> Vec<String> {
    let first = names.iter().take(LISTED);
    first.map(|name| (*name).to_owned()).collect()
}
