//! Renders the answer of Explain: a sentence, bars for the domains, and hints.

use super::bars::Bar;
use super::decision::{facts, policies, reasons, section};
use super::look::Look;
use super::page::{Head, Page, PagePart, Parts, Table, TableCell, not_checked};
use super::text::{number, plural};
use crate::explain::{among, quoted};
use crate::misspelt::topology_key_hint;
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::v1::{
    ConstraintInsight, ConstraintReport, Domain, DomainInsight, ExplainResponse, Hint, LeftOut,
    NodeVerdict, TopologySpreadConstraint,
};

/// Explain's answer.
pub(crate) fn explain(head: &Head, answer: &ExplainResponse) -> Page {
    let look = Look::of_verdict(answer.feasible_count > 0, &answer.unchecked);
    let mut parts = Parts::default();
    parts.lines(not_checked(&untold(answer)));
    parts.push(PagePart::OnPage(tallies(answer)));
    details(&mut parts, answer);
    head.page("explain", answer.revision, answer.defaults())
        .verdict(look, &*answer.summary)
        .with(parts)
}

fn tallies(answer: &ExplainResponse) -> Parts {
    let mut parts = Parts::default();
    parts.line(format!("{} feasible", number(answer.feasible_count)));
    reasons(&mut parts, &answer.reasons);
    parts
}

/// Adds the constraints, the hints and, for a page, the nodes.
pub(super) fn details(parts: &mut Parts, answer: &ExplainResponse) {
    for (report, insight) in answer.constraints.iter().zip(&answer.insights) {
        parts.push(one(report, insight));
    }
    if answer.constraints.is_empty() {
        parts.apart(Look::Plain, "no spread constraint");
    }
    let hints = answer.hints.iter();
    let hints: Vec<String> = hints.map(|hint| hint_text(answer, hint)).collect();
    if !hints.is_empty() {
        parts.section("hints", Parts(vec![PagePart::Bullets(hints)]));
    }
    nodes(parts, answer);
}

/// Returns the unchecked fields that the summary does not name.
pub(super) fn untold(answer: &ExplainResponse) -> Vec<String> {
    let told = |field: &&String| answer.feasible_count > 0 && answer.summary.contains(&***field);
    let unchecked = answer.unchecked.iter();
    unchecked.filter(|field| !told(field)).cloned().collect()
}

/// Returns the text of a hint. If no node has the key, the text names the key that was probably
/// meant.
fn hint_text(answer: &ExplainResponse, hint: &Hint) -> String {
    let mut reports = answer.constraints.iter().zip(&answer.insights);
    let of_hint = reports.find(|(report, _)| report.constraint_index == hint.constraint_index);
    let key = of_hint.and_then(|(report, insight)| {
        let mut left_out = insight.left_out.iter();
        let missing = left_out.find(|it| it.cause() == Cause::MissingKey)?;
        let key = &report.constraint.as_ref()?.topology_key;
        (missing.node_count >= answer.node_count).then_some(key)
    });
    let key = key.filter(|_| hint.kind() == Kind::MissingKey);
    let meant = key.map_or_else(String::new, |key| topology_key_hint(key));
    format!("{}{meant}", hint.message)
}

/// A constraint with its fields, the nodes that it leaves out, and its domains.
fn one(report: &ConstraintReport, insight: &ConstraintInsight) -> PagePart {
    let constraint = report.constraint.clone().unwrap_or_default();
    let mut facts = facts(report, &constraint);
    if is_hard(&constraint) {
        facts.push(("minimum", minimum(report, insight)));
        if !counts_own_node(report, insight) {
            facts.push(("limit", limit(report, insight)));
        }
    }
    facts.extend(policies(&constraint));
    let left_out = insight.left_out.iter();
    facts.extend(left_out.map(|it| ("left out", left_out_text(it))));
    section(report, facts, domains(report, insight, &constraint))
}

/// Returns whether a hard constraint has no limit, because each pod of a DaemonSet counts its own node.
fn counts_own_node(report: &ConstraintReport, insight: &ConstraintInsight) -> bool {
    let max_skew = report.constraint.as_ref().map_or(0, |it| it.max_skew);
    insight.limit == 0 && report.global_minimum + i64::from(max_skew) > i64::from(report.self_match)
}

/// Returns whether a constraint is hard.
fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable != "ScheduleAnyway"
}

/// The minimum, and the domains that have it.
fn minimum(report: &ConstraintReport, insight: &ConstraintInsight) -> String {
    let count = number(report.global_minimum);
    let named = among(&insight.minimum_domains);
    let wanted = report.constraint.as_ref().and_then(|c| c.min_domains);
    match insight.minimum() {
        Minimum::Unspecified => count,
        Minimum::WithoutDomains => format!("{count}: no node is eligible, so there is no domain"),
        Minimum::ByMinDomains => format!(
            "{count}: there {}, minDomains wants {}",
            match report.domain_count {
                1 => "is 1 domain".to_owned(),
                count => format!("are {count} domains"),
            },
            wanted.unwrap_or(1),
        ),
        Minimum::ByDomains => {
            let unnamed = insight.minimum_domain_count - insight.minimum_domains.len() as i64;
            match unnamed {
                0 => format!("{count}, held by {named}"),
                _ => format!(
                    "{count}, held by {}",
                    plural(insight.minimum_domain_count, "domain")
                ),
            }
        }
    }
}

/// Returns the number of pods that a domain may have, in words.
fn limit(report: &ConstraintReport, insight: &ConstraintInsight) -> String {
    let constraint = report.constraint.clone().unwrap_or_default();
    let (max_skew, minimum) = (constraint.max_skew, report.global_minimum);
    let most = minimum + i64::from(max_skew);
    format!(
        "{most} with the pod: minimum {minimum} + max skew {max_skew}; so {} before it goes there",
        match insight.limit {
            ..0 => "nowhere".to_owned(),
            0 => "none".to_owned(),
            limit => format!("at most {}", number(limit)),
        }
    )
}

/// Says which nodes are left out, and why.
fn left_out_text(left_out: &LeftOut) -> String {
    let why = match left_out.cause() {
        Cause::MissingKey | Cause::Unspecified => "without the topology key",
        Cause::MissingOtherKey => "without the topology key of another constraint",
        Cause::NodeAffinity => "by nodeAffinityPolicy: Honor",
        Cause::Taints => "by nodeTaintsPolicy: Honor",
    };
    let pods = match left_out.matching_pods {
        0 => String::new(),
        1 => ", with 1 matching pod that does not count".to_owned(),
        pods => format!(", with {} that do not count", plural(pods, "matching pod")),
    };
    let (count, listed) = (left_out.node_count, left_out.nodes.len() as i64);
    let names = match count - listed {
        0 => among(&left_out.nodes),
        _ => format!(
            "{}, ...",
            among(&left_out.nodes[..left_out.nodes.len().min(3)])
        ),
    };
    format!("{} {why} ({names}){pods}", plural(count, "node"))
}

/// Returns the verdict on a domain: true if the pod can go there, and the text.
fn verdict(
    constraint: &TopologySpreadConstraint,
    domain: &Domain,
    insight: &DomainInsight,
) -> (bool, String) {
    match domain.feasible {
        _ if !is_hard(constraint) => (true, String::new()),
        false => (
            false,
            format!("skew {} > {}", domain.skew, constraint.max_skew),
        ),
        true if insight.usable_node_count == 0 => (false, "no usable node".to_owned()),
        true if domain.skew > i64::from(constraint.max_skew) => {
            (true, format!("skew {}, not refused", domain.skew))
        }
        true => (
            true,
            format!("skew {} <= {}", domain.skew, constraint.max_skew),
        ),
    }
}

fn domains(
    report: &ConstraintReport,
    insight: &ConstraintInsight,
    constraint: &TopologySpreadConstraint,
) -> Table {
    let limit = report.global_minimum + i64::from(constraint.max_skew);
    let limit = is_hard(constraint).then_some(limit);
    let rows = report.domains.iter().zip(&insight.domains);
    let rows = rows.map(|(domain, insight)| {
        let (good, said) = verdict(constraint, domain, insight);
        let look = Look::of(good);
        let bar = Bar {
            count: domain.matching_pods,
            added: insight.matching_pods_after - domain.matching_pods,
            limit,
        };
        let (usable, all) = (insight.usable_node_count, domain.eligible_nodes);
        [
            quoted(&domain.value).into(),
            number(domain.matching_pods).into(),
            number(insight.matching_pods_after).into(),
            format!("{}/{}", number(usable), number(all)).into(),
            TableCell::bar(look, bar),
            TableCell::whole(look, said),
        ]
    });
    let mut legend = vec![
        ("pods", "pods".to_owned()),
        ("added", "this pod".to_owned()),
    ];
    if limit.is_some() {
        legend.extend([("room", "room".to_owned()), ("limit", "limit".to_owned())]);
    }
    let headings = ["DOMAIN", "PODS", "AFTER", "USABLE", "", ""];
    Table::new("domain", headings, rows).legend(legend)
}

/// Lists the nodes on a page, folded away.
fn nodes(parts: &mut Parts, answer: &ExplainResponse) {
    if !answer.feasible.is_empty() {
        let summary = plural(answer.feasible.len(), "feasible node");
        let names = PagePart::Names(answer.feasible.clone());
        parts.push(PagePart::Folded(summary, Parts(vec![names])));
    }
    if !answer.infeasible.is_empty() {
        let summary = plural(answer.infeasible.len(), "infeasible node");
        let rows = answer.infeasible.iter();
        let rows = rows.map(|it| [it.node.clone(), refusal(it)]);
        let table = PagePart::Table(Table::new("node", ["NODE", "REASON"], rows));
        parts.push(PagePart::Folded(summary, Parts(vec![table])));
    }
}

fn refusal(verdict: &NodeVerdict) -> String {
    let by = match verdict.constraint_index {
        ..0 => String::new(),
        index => format!(" (constraint {index})"),
    };
    let nominated = match verdict.nominated_pods {
        0 => String::new(),
        pods => format!(", with {} there", plural(pods, "nominated pod")),
    };
    format!("{}{by}{nominated}", verdict.reason)
}
