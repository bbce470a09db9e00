//! Renders the numbers behind a constraint.

use super::layout::unbroken;
use super::text::{BAD, GOOD, HEADING, and_more, number, plural, styled, table};
use crate::explain::quoted;
use crate::matching::selector_text;
use crate::proto::v1::{ConstraintReport, TopologySpreadConstraint};

/// The most domains at the minimum that are named.
const NAMED_AT_MINIMUM: usize = 3;

/// A hard constraint in Filter's report. `feasible_count` is the number of all feasible nodes.
pub(super) fn hard(report: &ConstraintReport, feasible_count: i64) -> String {
    let constraint = report.constraint.clone().unwrap_or_default();
    let max_skew = i64::from(constraint.max_skew);
    let mut text = heading(report, &constraint);
    text.push_str(&format!("  minimum     {}\n", minimum(report, &constraint)));
    text.push_str(&policies(&constraint));
    // A server of version 0.1 does not say where feasible nodes are.
    let says_where = report
        .domains
        .iter()
        .any(|domain| domain.feasible_nodes > 0);
    let is_known = says_where || feasible_count == 0;
    let rows = report.domains.iter().map(|domain| {
        [
            quoted(&domain.value),
            number(domain.matching_pods),
            number(domain.skew),
            number(domain.eligible_nodes),
            match domain.feasible {
                true if is_known && domain.feasible_nodes == 0 => styled(BAD, "no feasible node"),
                true if domain.skew > max_skew => {
                    styled(GOOD, &format!("skew {}, not refused", domain.skew))
                }
                true => styled(
                    GOOD,
                    &unbroken(&format!("skew {} <= {max_skew}", domain.skew)),
                ),
                false => styled(
                    BAD,
                    &unbroken(&format!("skew {} > {max_skew}", domain.skew)),
                ),
            },
        ]
    });
    let headings = ["DOMAIN", "PODS", "SKEW", "NODES", "VERDICT"];
    text + &domain_table(report, headings, rows)
}

/// A soft constraint, as Score reports it.
pub(super) fn soft(report: &ConstraintReport) -> String {
    let constraint = report.constraint.clone().unwrap_or_default();
    let mut text = heading(report, &constraint);
    text.push_str(&format!(
        "  weight      {:.4} per pod: ln({} + 2), for {}\n",
        report.weight,
        report.domain_count,
        plural(report.domain_count, "domain"),
    ));
    text.push_str(&policies(&constraint));
    let rows = report.domains.iter().map(|domain| {
        [
            quoted(&domain.value),
            number(domain.matching_pods),
            number(domain.eligible_nodes),
        ]
    });
    text + &domain_table(report, ["DOMAIN", "PODS", "NODES"], rows)
}

pub(super) fn heading(report: &ConstraintReport, constraint: &TopologySpreadConstraint) -> String {
    let (from, deduced) = match report.from_defaults {
        true => (
            "default constraint",
            ", deduced from services and the pod's owner",
        ),
        false => ("constraint", ""),
    };
    let title = format!(
        "{from} {}: {}",
        report.constraint_index, constraint.topology_key
    );
    let counts = match constraint.label_selector.as_ref().map(selector_text) {
        None => "no pods (there is no selector)".to_owned(),
        Some(selector) if selector.is_empty() => {
            "no pods (kube-scheduler counts none for an empty selector)".to_owned()
        }
        Some(selector) => format!("pods with {selector}"),
    };
    let self_match = match report.self_match {
        0 => "no: the pod does not count for itself",
        _ => "yes: the pod counts for itself",
    };
    format!(
        "{}, max skew {}, {}\n  counts      {counts}{deduced}\n  self match  {self_match}\n",
        styled(HEADING, &title),
        constraint.max_skew,
        constraint.when_unsatisfiable,
    )
}

/// The minimum, and the domains that have it.
fn minimum(report: &ConstraintReport, constraint: &TopologySpreadConstraint) -> String {
    let count = number(report.global_minimum);
    if report.domain_count == 0 {
        return format!("{count}: no node is eligible, so there is no domain");
    }
    if report.min_domains_unmet {
        return format!(
            "{count}: only {}, minDomains wants {}",
            plural(report.domain_count, "domain"),
            constraint.min_domains.unwrap_or(1),
        );
    }
    let at_minimum: Vec<String> = report
        .domains
        .iter()
        .filter(|domain| domain.matching_pods == report.global_minimum)
        .map(|domain| quoted(&domain.value))
        .collect();
    let named = at_minimum[..at_minimum.len().min(NAMED_AT_MINIMUM)].join(", ");
    // Domains are sorted by count. If all listed domains are at the minimum, others may be, too.
    let all_listed = report.domain_count == report.domains.len() as i64;
    let open = !all_listed && at_minimum.len() == report.domains.len();
    match at_minimum.len().saturating_sub(NAMED_AT_MINIMUM) {
        _ if at_minimum.is_empty() => count,
        0 if open => format!("{count}, held by {named} and perhaps more"),
        0 => format!("{count}, held by {named}"),
        more if open => format!("{count}, held by {named} and at least {more} more"),
        more => format!("{count}, held by {named} and {more} more"),
    }
}

/// The fields that differ from their defaults, as a line.
pub(super) fn policies(constraint: &TopologySpreadConstraint) -> String {
    match policy_list(constraint) {
        said if said.is_empty() => String::new(),
        said => format!("  with        {}\n", said.join(", ")),
    }
}

/// The fields that differ from their defaults.
pub(super) fn policy_list(constraint: &TopologySpreadConstraint) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(domains) = constraint.min_domains.filter(|domains| *domains > 1) {
        said.push(format!("minDomains {domains}"));
    }
    if constraint.node_affinity_policy.as_deref() == Some("Ignore") {
        said.push("node affinity ignored".to_owned());
    }
    if constraint.node_taints_policy.as_deref() == Some("Honor") {
        said.push("taints honored".to_owned());
    }
    if !constraint.match_label_keys.is_empty() {
        said.push(format!(
            "matchLabelKeys {}",
            constraint.match_label_keys.join(", ")
        ));
    }
    said
}

/// The listed domains of a report, one row each, and the number of the others.
pub(super) fn domain_table<const N: usize>(
    report: &ConstraintReport,
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let more = (report.domain_count as usize).saturating_sub(report.domains.len());
    let more = and_more("  ", more, "domains", "--all lists them");
    if report.domains.is_empty() {
        return more;
    }
    table("  ", headings, rows) + &more
}
