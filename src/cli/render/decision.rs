//! Renders the answers of Filter, Score and Explain: sentences, nodes, the numbers behind a constraint,
//! and hints.

use super::page::{Head, Look, Page, PagePart, Parts, Table, TableCell, not_checked};
use super::text::{Bar, number, plural};
use crate::explain::{among, but_for, quoted};
use crate::matching::selector_text;
use crate::misspelt::topology_key_hint;
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::v1::{
    Code, ConstraintInsight, ConstraintReport, Domain, ExplainResponse, FilterResponse, Hint,
    LeftOut, NodeScore, NodeVerdict, ReasonCount, ScoreResponse, TopologySpreadConstraint,
};

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
        parts.push(hard(report));
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

/// A hard constraint in Filter's report.
fn hard(report: &ConstraintReport) -> PagePart {
    let constraint = report.constraint.clone().unwrap_or_default();
    let mut facts = facts(report, &constraint);
    facts.push(("minimum", minimum(report, &constraint)));
    facts.extend(policies(&constraint));
    let rows = report.domains.iter().map(|domain| {
        let is_usable = domain.feasible_nodes > 0;
        let (look, verdict) = domain_verdict(&constraint, domain, is_usable, "no feasible node");
        let verdict = match domain.feasible && !is_usable {
            true => TableCell::styled(look, verdict),
            false => TableCell::whole(look, verdict),
        };
        [
            quoted(&domain.value).into(),
            number(domain.matching_pods).into(),
            number(domain.skew).into(),
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
    let at_minimum = report.domains.iter();
    let at_minimum = at_minimum.filter(|domain| domain.matching_pods == report.global_minimum);
    let at_minimum: Vec<&str> = at_minimum.map(|domain| &*domain.value).collect();
    if at_minimum.is_empty() {
        return count;
    }
    // Domains are sorted by count. If all listed domains are at the minimum, others may be, too.
    let all_listed = report.domain_count == report.domains.len() as i64;
    let others = match !all_listed && at_minimum.len() == report.domains.len() {
        true => ", and perhaps by others",
        false => "",
    };
    format!("{count}, held by {}{others}", among(&at_minimum))
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
        parts.push(explained(report, insight));
    }
    if answer.constraints.is_empty() {
        parts.apart(Look::Plain, "no spread constraint");
    }
    let hints = answer.hints.iter();
    let hints: Vec<String> = hints.map(|hint| hint_text(answer, hint)).collect();
    if !hints.is_empty() {
        parts.section("hints", Parts(vec![PagePart::Bullets(hints)]));
    }
    folded_nodes(parts, answer);
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
fn explained(report: &ConstraintReport, insight: &ConstraintInsight) -> PagePart {
    let constraint = report.constraint.clone().unwrap_or_default();
    let mut facts = facts(report, &constraint);
    if is_hard(&constraint) {
        let minimum = explained_minimum(report, insight, &constraint);
        facts.push(("minimum", minimum));
        if !counts_own_node(report, insight) {
            facts.push(("limit", limit_text(report, insight)));
        }
    }
    facts.extend(policies(&constraint));
    let left_out = insight.left_out.iter();
    facts.extend(left_out.map(|it| ("left out", left_out_text(it))));
    section(
        report,
        facts,
        explained_domains(report, insight, &constraint),
    )
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

/// The minimum, and why it is that.
fn explained_minimum(
    report: &ConstraintReport,
    insight: &ConstraintInsight,
    constraint: &TopologySpreadConstraint,
) -> String {
    let count = number(report.global_minimum);
    match insight.minimum() {
        Minimum::Unspecified => count,
        Minimum::ByMinDomains => format!(
            "{count}: there {}, minDomains wants {}",
            match report.domain_count {
                1 => "is 1 domain".to_owned(),
                count => format!("are {count} domains"),
            },
            constraint.min_domains.unwrap_or(1),
        ),
        Minimum::WithoutDomains | Minimum::ByDomains => minimum(report, constraint),
    }
}

/// Returns the number of pods that a domain may have, in words.
fn limit_text(report: &ConstraintReport, insight: &ConstraintInsight) -> String {
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

/// The verdict of a hard constraint on a domain. `unusable` is said if the pod can go to none of its nodes.
fn domain_verdict(
    constraint: &TopologySpreadConstraint,
    domain: &Domain,
    is_usable: bool,
    unusable: &str,
) -> (Look, String) {
    let (skew, most) = (domain.skew, i64::from(constraint.max_skew));
    match domain.feasible {
        false => (Look::Bad, format!("skew {skew} > {most}")),
        true if !is_usable => (Look::Bad, unusable.to_owned()),
        true if skew > most => (Look::Good, format!("skew {skew}, not refused")),
        true => (Look::Good, format!("skew {skew} <= {most}")),
    }
}

fn explained_domains(
    report: &ConstraintReport,
    insight: &ConstraintInsight,
    constraint: &TopologySpreadConstraint,
) -> Table {
    let limit = report.global_minimum + i64::from(constraint.max_skew);
    let limit = is_hard(constraint).then_some(limit);
    let rows = report.domains.iter().zip(&insight.domains);
    let rows = rows.map(|(domain, insight)| {
        let is_usable = insight.usable_node_count > 0;
        let (look, said) = match is_hard(constraint) {
            true => domain_verdict(constraint, domain, is_usable, "no usable node"),
            false => (Look::Good, String::new()),
        };
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
fn folded_nodes(parts: &mut Parts, answer: &ExplainResponse) {
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
