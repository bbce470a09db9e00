//! A report on a whole cluster, as a page.

use maud::{Markup, html};

use super::page::{Column, Page, header, listed, number_cell};
use super::spread::workload;
use crate::cli::render::report::{FORMULA, counts, coverage_lines};
use crate::cli::render::text::{Provenance, number};
use crate::cli::report::judge::{ClusterReport, Risk, Unbalanced};

/// The report as a page.
pub(crate) fn report_html(origin: &Provenance<'_>, report: &ClusterReport) -> String {
    let good = report.constraints.violating_count == 0;
    let formula = report.score.value.iter().map(|_| FORMULA.to_owned());
    let formula: Vec<String> = formula.collect();
    let content = html! {
        (header(good, &counts(report), &report.score.sentence(), &formula))
        section {
            h2 { "Constraints" }
            @for line in coverage_lines(report) { p { (line) } }
        }
        @if !report.constraints.workloads.is_empty() {
            h2 { "Beyond max skew" }
            @for spread in &report.constraints.workloads { (workload(None, spread)) }
        }
        (risks(&report.risks))
        (unbalanced(report))
    };
    let page = Page {
        title: format!("Report on {}", origin.snapshot),
        command: "report",
        origin,
        revision: report.revision,
        defaults: report.constraints.defaults(),
    };
    page.write(&content)
}

fn risks(risks: &[Risk]) -> Markup {
    let head = [
        Column::Text("Workload"),
        Column::Number("Pods"),
        Column::Text("Risk"),
    ];
    let rows = risks.iter().map(|risk| {
        html! {
            tr {
                th scope="row" { (risk.workload) }
                (number_cell("pods", &number(risk.pods)))
                td { (risk.risk) }
            }
        }
    });
    listed(&html! { "Risks" }, "Risks", &head, rows)
}

fn unbalanced(report: &ClusterReport) -> Markup {
    let head = [
        Column::Text("Workload"),
        Column::Number("Pods"),
        Column::Number("Fullest"),
        Column::Number("If even"),
        Column::Number("Evenness"),
    ];
    let row = |one: &Unbalanced| {
        html! {
            tr {
                th scope="row" { (one.workload) }
                (number_cell("pods", &number(one.pods)))
                (number_cell("fullest", &format!("{} {}", one.fullest, number(one.most))))
                (number_cell("if even", &number(one.even)))
                (number_cell("evenness", &format!("{:.1} %", one.percent)))
            }
        }
    };
    let rows = report.unbalanced.iter().map(row);
    let heading = html! { "Unbalanced over " code { (report.by) } };
    listed(&heading, "Unbalanced workloads", &head, rows)
}
