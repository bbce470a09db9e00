//! Renders a report on a whole cluster as text.

use super::coverage;
use super::layout::paragraph;
use super::spread;
use super::text::{BAD, GOOD, HEADING, number, plural, source_line, styled, table};
use crate::cli::report::judge::{ClusterReport, Unbalanced};

/// The formula of the score.
pub(super) const FORMULA: &str = "score = 100 × the average, over all workloads of at least two \
    placed pods that have a choice of domains, of: pods in the fullest domain if they were even ÷ \
    pods in the fullest domain now; 0 for a workload that violates a hard constraint";

/// The report as text.
pub(crate) fn report(snapshot: &str, report: &ClusterReport) -> String {
    let mut text = source_line(snapshot, report.revision, report.constraints.defaults());
    text.push_str(&format!("{}\n", counts(report)));
    let style = match report.score.value {
        Some(..100) => BAD,
        _ => GOOD,
    };
    text.push_str(&format!(
        "\n{}\n",
        styled(style.bold(), &report.score.sentence())
    ));
    if report.score.value.is_some() {
        text.push_str(&paragraph(FORMULA, "  ", str::to_owned));
    }
    if !report.stuck.is_empty() {
        text.push_str(&heading("fit nowhere"));
        let rows = report.stuck.iter();
        let rows = rows.map(|it| [it.workload.clone(), number(it.pods), it.reason.clone()]);
        text.push_str(&table("  ", ["WORKLOAD", "PODS", "REASON"], rows));
    }
    text.push_str(&heading("constraints"));
    let advice = coverage::advice(&report.constraints, false);
    for line in coverage_lines(report).into_iter().chain(advice) {
        text.push_str(&paragraph(&line, "  ", str::to_owned));
    }
    if !report.constraints.workloads.is_empty() {
        text.push_str(&heading("beyond max skew"));
        text.push_str(&spread::violations("  ", &report.constraints));
    }
    if !report.risks.is_empty() {
        text.push_str(&heading("risks"));
        let rows = report.risks.iter();
        let rows = rows.map(|it| [it.workload.clone(), number(it.pods), it.risk.clone()]);
        text.push_str(&table("  ", ["WORKLOAD", "PODS", "RISK"], rows));
    }
    if !report.unbalanced.is_empty() {
        text.push_str(&heading(&format!("unbalanced over {}", report.by)));
        let headings = ["WORKLOAD", "PODS", "FULLEST", "IF EVEN", "EVENNESS"];
        text.push_str(&table("  ", headings, report.unbalanced.iter().map(row)));
    }
    text
}

fn heading(text: &str) -> String {
    format!("\n{}\n", styled(HEADING, text))
}

/// Returns the numbers of nodes, pods and workloads in the cluster, in words.
pub(super) fn counts(report: &ClusterReport) -> String {
    format!(
        "{}, {}, {}",
        plural(report.node_count, "node"),
        plural(report.pod_count, "pod"),
        plural(report.constraints.workload_count, "workload")
    )
}

/// Returns lines with the verdict, the rules that keep workloads even, and the pods that cannot be
/// judged.
pub(super) fn coverage_lines(report: &ClusterReport) -> Vec<String> {
    let verdict = coverage::verdict(&report.constraints);
    let lines = coverage::lines(&report.constraints);
    let not_judged = report.not_judged.iter().map(ToString::to_string);
    std::iter::once(verdict)
        .chain(lines)
        .chain(not_judged)
        .collect()
}

fn row(one: &Unbalanced) -> [String; 5] {
    [
        one.workload.clone(),
        number(one.pods),
        format!("{} {}", one.fullest, number(one.most)),
        number(one.even),
        format!("{:.1} %", one.percent),
    ]
}
