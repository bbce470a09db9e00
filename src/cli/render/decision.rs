//! Renders the answers of Filter and Score, and the numbers behind a constraint.

use super::look::Look;
use super::page::{Head, Page, PagePart, Parts, Table, TableCell, not_checked};
use super::text::{number, plural};
use crate::explain::{but_for, quoted};
use crate::matching::selector_text;
use crate::proto::v1::{
    Code, ConstraintReport, FilterResponse, NodeScore, NodeVerdict, ReasonCount, ScoreResponse,
    TopologySpreadConstraint,
};

/// The most domains at the minimum that are named.
const NAMED_AT_MINIMUM: usize = 3;
/// How to see what a table of domains or nodes leaves out.
const ALL: &str = "--all lists them";

/// Filter's answer: summary, nodes, constraints.
pub(crate) fn filter(head: &Head, answer: &FilterResponse) -> Page {
    let (feasible, all) = (
        number(answer.feasible_count),
        plural(answer.node_count, "node"),
    );
    let but_for = match answer.feasible_count {
        0 => String::new(),
        _ => but_for(&answer.unchecked),
    };
    let mut parts = Parts::default();
    reasons(&mut parts, &answer.reasons);
    parts.table(head.listed(nodes(answer), ALL));
    if answer.constraints.is_empty() {
        parts.apart(Look::Plain, "no hard spread constraint");
    }
    for report in &answer.constraints {
        parts.push(hard(report, answer.feasible_count));
    }
    let look = Look::of_verdict(answer.feasible_count > 0, &answer.unchecked);
    head.page("filter", answer.revision, answer.defaults())
        .verdict(look, format!("feasible: {feasible} of {all}{but_for}"))
        .with(parts)
}

/// Lines with the reasons why nodes are refused, and their number of nodes.
pub(super) fn reasons(parts: &mut Parts, reasons: &[ReasonCount]) {
    let said = reasons.iter();
    parts.indented(said.map(|it| format!("{} {}", number(it.count), it.reason)));
}

fn nodes(answer: &FilterResponse) -> Table {
    let feasible = answer.feasible.iter();
    let feasible = feasible.map(|node| {
        let verdict = TableCell::styled(Look::Good, "feasible");
        [node.clone().into(), verdict, "".into()]
    });
    let infeasible = answer.infeasible.iter().map(|verdict| {
        let said = match verdict.code() {
            Code::UnschedulableAndUnresolvable => "unresolvable",
            _ => "unschedulable",
        };
        let said = TableCell::styled(Look::Bad, said);
        [
            verdict.node.clone().into(),
            said,
            reason(verdict, answer).into(),
        ]
    });
    let headings = ["NODE", "VERDICT", "REASON"];
    Table::new("node", headings, feasible.chain(infeasible))
}

/// Kubernetes' reason, with the constraint and the nominated pods that decided.
fn reason(verdict: &NodeVerdict, answer: &FilterResponse) -> String {
    let why = by_constraint(verdict, answer);
    match verdict.nominated_pods {
        0 => why,
        pods => format!("{why}; with {} there", plural(pods, "nominated pod")),
    }
}

/// Kubernetes' reason, with the constraint and the numbers that decided.
fn by_constraint(verdict: &NodeVerdict, answer: &FilterResponse) -> String {
    let report = answer
        .constraints
        .iter()
        .find(|report| report.constraint_index == verdict.constraint_index);
    let Some(constraint) = report.and_then(|report| report.constraint.as_ref()) else {
        return verdict.reason.clone();
    };
    let key = &constraint.topology_key;
    let why = match verdict.code() {
        Code::UnschedulableAndUnresolvable => format!("has no {key}"),
        _ => {
            let (skew, most) = (verdict.skew, constraint.max_skew);
            format!("{key}: skew {skew} > {most}")
        }
    };
    format!("{}; {why}", verdict.reason)
}

/// Score's answer: nodes in its order, constraints.
pub(crate) fn score(head: &Head, answer: &ScoreResponse) -> Page {
    let mut parts = Parts::default();
    if answer.scores.is_empty() {
        parts.line("no node to score: none is feasible");
    } else if answer.skipped {
        parts.line("no soft spread constraint: all nodes are equally good");
    }
    parts.lines(not_checked(&answer.unchecked));
    let rows = answer.scores.iter().map(|score: &NodeScore| {
        let note = match score.ignored {
            true => "ignored: lacks a topology key",
            false => "",
        };
        let (node, note) = (score.node.clone(), note.to_owned());
        [node, number(score.score), number(score.raw), note]
    });
    let nodes = Table::new("node", ["NODE", "SCORE", "RAW", "NOTE"], rows);
    parts.table(head.listed(nodes, ALL));
    for report in &answer.constraints {
        parts.push(soft(report));
    }
    head.page("score", answer.revision, answer.defaults())
        .with(parts)
}

/// A hard constraint in Filter's report. `feasible_count` is the number of all feasible nodes.
pub(super) fn hard(report: &ConstraintReport, feasible_count: i64) -> PagePart {
    let constraint = report.constraint.clone().unwrap_or_default();
    let max_skew = i64::from(constraint.max_skew);
    let mut facts = facts(report, &constraint);
    facts.push(("minimum", minimum(report, &constraint)));
    facts.extend(policies(&constraint));
    // A server of version 0.1 does not say where feasible nodes are.
    let says_where = report
        .domains
        .iter()
        .any(|domain| domain.feasible_nodes > 0);
    let is_known = says_where || feasible_count == 0;
    let rows = report.domains.iter().map(|domain| {
        let skew = domain.skew;
        let verdict = match domain.feasible {
            true if is_known && domain.feasible_nodes == 0 => {
                TableCell::styled(Look::Bad, "no feasible node")
            }
            true if skew > max_skew => {
                TableCell::styled(Look::Good, format!("skew {skew}, not refused"))
            }
            true => TableCell::whole(Look::Good, format!("skew {skew} <= {max_skew}")),
            false => TableCell::whole(Look::Bad, format!("skew {skew} > {max_skew}")),
        };
        [
            quoted(&domain.value).into(),
            number(domain.matching_pods).into(),
            number(skew).into(),
            number(domain.eligible_nodes).into(),
            verdict,
        ]
    });
    let headings = ["DOMAIN", "PODS", "SKEW", "NODES", "VERDICT"];
    section(report, facts, Table::new("domain", headings, rows))
}

/// A soft constraint, as Score reports it.
fn soft(report: &ConstraintReport) -> PagePart {
    let constraint = report.constraint.clone().unwrap_or_default();
    let mut facts = facts(report, &constraint);
    let (weight, count) = (report.weight, report.domain_count);
    let domains = plural(count, "domain");
    let weight = format!("{weight:.4} per pod: ln({count} + 2), for {domains}");
    facts.push(("weight", weight));
    facts.extend(policies(&constraint));
    let rows = report.domains.iter().map(|domain| {
        [
            quoted(&domain.value),
            number(domain.matching_pods),
            number(domain.eligible_nodes),
        ]
    });
    let table = Table::new("domain", ["DOMAIN", "PODS", "NODES"], rows);
    section(report, facts, table)
}

/// A constraint with its facts and its domains.
pub(super) fn section(
    report: &ConstraintReport,
    facts: Vec<(&'static str, String)>,
    domains: Table,
) -> PagePart {
    let constraint = report.constraint.clone().unwrap_or_default();
    let from = match report.from_defaults {
        true => "default constraint",
        false => "constraint",
    };
    let more = report.domain_count - report.domains.len() as i64;
    let mut parts = Parts::default();
    parts.facts(facts).table(domains.more(more, ALL));
    PagePart::Section(heading(from, report.constraint_index, &constraint), parts)
}

/// The heading of a constraint.
pub(super) fn heading(
    from: &str,
    index: i32,
    constraint: &TopologySpreadConstraint,
) -> Vec<(Look, String)> {
    let (most, what) = (constraint.max_skew, &constraint.when_unsatisfiable);
    vec![
        (
            Look::Strong,
            format!("{from} {index}: {}", constraint.topology_key),
        ),
        (Look::Plain, format!(", max skew {most}, {what}")),
    ]
}

/// What a constraint counts.
pub(super) fn facts(
    report: &ConstraintReport,
    constraint: &TopologySpreadConstraint,
) -> Vec<(&'static str, String)> {
    let deduced = match report.from_defaults {
        true => ", deduced from services and the pod's owner",
        false => "",
    };
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
    vec![
        ("counts", counts + deduced),
        ("self match", self_match.to_owned()),
    ]
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

/// The fields that differ from their defaults, if any does.
pub(super) fn policies(constraint: &TopologySpreadConstraint) -> Option<(&'static str, String)> {
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
        let keys = constraint.match_label_keys.join(", ");
        said.push(format!("matchLabelKeys {keys}"));
    }
    (!said.is_empty()).then(|| ("with", said.join(", ")))
}
