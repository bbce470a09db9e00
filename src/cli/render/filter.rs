//! Renders the answer of Filter.

use super::constraint;
use super::layout::{paragraph, unbroken};
use super::text::{BAD, GOOD, Head, headline_style, number, plural, styled};
use crate::explain::but_for;
use crate::proto::v1::{Code, FilterResponse, NodeVerdict};

/// The answer as text: summary, nodes, constraints.
pub(crate) fn filter(head: &Head, answer: &FilterResponse) -> String {
    let mut text = head.lines(answer.revision, answer.defaults());
    text.push_str(&summary(answer));
    text.push_str(&nodes(head, answer));
    if answer.constraints.is_empty() {
        text.push_str("\nno hard spread constraint\n");
    }
    for report in &answer.constraints {
        text.push('\n');
        text.push_str(&constraint::hard(report, answer.feasible_count));
    }
    text
}

fn summary(answer: &FilterResponse) -> String {
    let style = headline_style(answer.feasible_count > 0, &answer.unchecked);
    let (feasible, all) = (
        number(answer.feasible_count),
        plural(answer.node_count, "node"),
    );
    let but_for = match answer.feasible_count {
        0 => String::new(),
        _ => but_for(&answer.unchecked),
    };
    let first = format!("feasible: {feasible} of {all}{but_for}");
    let mut text = paragraph(&first, "", |line| styled(style, line));
    for reason in &answer.reasons {
        text.push_str(&format!("  {} {}\n", number(reason.count), reason.reason));
    }
    text
}

fn nodes(head: &Head, answer: &FilterResponse) -> String {
    let count = answer.feasible.len() + answer.infeasible.len();
    let feasible = answer
        .feasible
        .iter()
        .map(|node| [node.clone(), styled(GOOD, "feasible"), String::new()]);
    let infeasible = answer.infeasible.iter().map(|verdict| {
        [
            verdict.node.clone(),
            styled(BAD, verdict_text(verdict)),
            reason(verdict, answer),
        ]
    });
    let rows = feasible.chain(infeasible);
    let headings = ["NODE", "VERDICT", "REASON"];
    head.nodes(headings, count, rows, "--all lists them")
}

fn verdict_text(verdict: &NodeVerdict) -> &'static str {
    match verdict.code() {
        Code::UnschedulableAndUnresolvable => "unresolvable",
        _ => "unschedulable",
    }
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
            let skew = format!("skew {} > {}", verdict.skew, constraint.max_skew);
            format!("{key}: {}", unbroken(&skew))
        }
    };
    format!("{}; {why}", verdict.reason)
}
