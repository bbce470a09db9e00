//! Renders a report on a whole cluster as a page.

use maud::{Markup, html};

use super::page::{
    Column, Look, Page, bar_cell, header, listed, longest_bar, more_domains, number_cell, table,
};
use super::spread::workload;
use crate::cli::render::bars::Bar;
use crate::cli::render::report::{FORMULA, counts, coverage_lines};
use crate::cli::render::text::{Provenance, number, plural};
use crate::cli::report::judge::{ClusterReport, DomainLoad, DomainPods, Unbalanced};
use crate::cli::report::room::RequestedShare;
use crate::explain::quoted;

/// The least score with which the page looks good.
const WELL: i64 = 90;

/// The number of unbalanced workloads that are drawn with bars. The others are listed.
const DRAWN: usize = 10;

/// The report as a page.
pub(crate) fn report_html(origin: &Provenance<'_>, report: &ClusterReport) -> String {
    let drawn = report.unbalanced.len().min(DRAWN);
    let (drawn, others) = report.unbalanced.split_at(drawn);
    let stuck = report.stuck.iter();
    let stuck = stuck.map(|it| (&*it.workload, it.pods, &*it.reason));
    let risks = report.risks.iter();
    let risks = risks.map(|it| (&*it.workload, it.pods, &*it.risk));
    let content = html! {
        (header(look(report), &counts(report), &report.score.sentence(), &[]))
        @if report.score.value.is_some() {
            details.more { summary { "How the score is made" } p { (FORMULA) } }
        }
        (told("Pods that fit nowhere", "Reason", stuck))
        section {
            h2 { "Constraints" }
            @for line in coverage_lines(report) { p { (line) } }
        }
        @if !report.constraints.workloads.is_empty() {
            h2 { "Beyond max skew" }
            @for spread in &report.constraints.workloads { (workload(None, spread, None)) }
        }
        (told("Risks", "Risk", risks))
        (load(report))
        @if !drawn.is_empty() {
            h2 { "Unbalanced over " code { (report.by) } }
            @for one in drawn { (unbalanced(one)) }
        }
        (other_unbalanced(others))
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

fn look(report: &ClusterReport) -> Look {
    match report.score.value {
        _ if report.constraints.violating_count > 0 || !report.stuck.is_empty() => Look::Bad,
        Some(..WELL) => Look::Fair,
        _ => Look::Good,
    }
}

/// Lists workloads, each with its pods and a sentence in the column `what`.
fn told<'r>(
    heading: &str,
    what: &str,
    workloads: impl Iterator<Item = (&'r str, i64, &'r str)>,
) -> Markup {
    let head = [
        Column::Text("Workload"),
        Column::Number("Pods"),
        Column::Text(what),
    ];
    let rows = workloads.map(|(workload, pods, said)| {
        html! {
            tr {
                th scope="row" { (workload) }
                (number_cell("pods", &number(pods)))
                td { (said) }
            }
        }
    });
    listed(&html! { (heading) }, heading, &head, rows)
}

/// Returns the resource whose requested share is drawn: of those that all domains have, the one with
/// the highest share. `None` if there is none, so that pods are drawn.
fn scarcest(loads: &[DomainLoad]) -> Option<&str> {
    let of = |load: &DomainLoad, resource: &str| {
        let mut shares = load.shares.iter();
        shares
            .find(|share| share.resource == resource)
            .map(|share| share.percent)
    };
    let first = loads.first()?.shares.iter().map(|share| &*share.resource);
    let highest = first.filter_map(|resource| {
        let shares: Option<Vec<i64>> = loads.iter().map(|load| of(load, resource)).collect();
        Some((shares?.into_iter().max()?, resource))
    });
    highest.max().map(|(_, resource)| resource)
}

/// Returns the load of each domain: the requested share of one resource, drawn in percent, or, if
/// nodes report none, the number of pods.
fn load(report: &ClusterReport) -> Markup {
    let drawn = scarcest(&report.load);
    let bar = |it: &DomainLoad| {
        let mut shares = it.shares.iter();
        match shares.find(|share| Some(&*share.resource) == drawn) {
            Some(share) => Bar {
                count: share.percent,
                limit: Some(100),
                ..Bar::default()
            },
            None => Bar {
                count: it.pods,
                ..Bar::default()
            },
        }
    };
    let unit = match drawn {
        Some(resource) => format!("{resource} requested, in % of what nodes have"),
        None => "pods".to_owned(),
    };
    let longest = longest_bar(report.load.iter().map(bar));
    let rows = report.load.iter().map(|it| {
        let shares = it.shares.iter();
        let share = |it: &RequestedShare| {
            let RequestedShare {
                resource,
                requested,
                allocatable,
                percent,
            } = it;
            format!("{resource} {percent} %: {requested} of {allocatable}")
        };
        let shares: Vec<String> = shares.map(share).collect();
        let pods = plural(it.pods, "pod");
        html! {
            tr.plain {
                th scope="row" { (quoted(&it.domain)) }
                (number_cell("pods", &number(it.pods)))
                td { @for share in &shares { div { (share) } } }
                (bar_cell(bar(it), longest, &format!("{pods} {}", shares.join(", "))))
            }
        }
    });
    let head = [
        Column::Text("Domain"),
        Column::Number("Pods"),
        Column::Text("Requested"),
        Column::Bars(html! { span.key.pods { (unit) } }),
    ];
    let heading = html! { "Load by " code { (report.by) } };
    html! {
        @if report.load.len() > 1 {
            section { h2 { (heading) } (table("domains", "Load by domain", "domain", &head, rows)) }
        }
    }
}

/// The domains of a workload, with the number of pods now, and if they were even.
fn unbalanced(one: &Unbalanced) -> Markup {
    let bar = |place: usize, it: &DomainPods| Bar {
        count: it.pods,
        limit: Some(one.even_at(place)),
        ..Bar::default()
    };
    let domains = || one.domains.iter().enumerate();
    let longest = longest_bar(domains().map(|(place, it)| bar(place, it)));
    let rows = domains().map(|(place, it)| {
        let even = one.even_at(place);
        let label = format!(
            "{}, {} if they were even",
            plural(it.pods, "pod"),
            number(even)
        );
        html! {
            tr.good[it.pods <= even].bad[it.pods > even] {
                th scope="row" { (quoted(&it.domain)) }
                (number_cell("now", &number(it.pods)))
                (number_cell("if even", &number(even)))
                (bar_cell(bar(place, it), longest, &label))
            }
        }
    });
    let head = [
        Column::Text("Domain"),
        Column::Number("Now"),
        Column::Number("If even"),
        Column::Bars(html! {}),
    ];
    let more = one.domain_count - one.domains.len() as i64;
    html! {
        section {
            h2 { (one.workload) ": " (plural(one.pods, "pod")) ", " (format!("{:.1} %", one.percent)) " even" }
            (table("domains", &format!("Domains of {}", one.workload), "domain", &head, rows))
            (more_domains(more, None))
        }
    }
}

/// Writes the unbalanced workloads that are not drawn.
fn other_unbalanced(others: &[Unbalanced]) -> Markup {
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
    let rows = others.iter().map(row);
    listed(
        &html! { "More that are unbalanced" },
        "Unbalanced workloads",
        &head,
        rows,
    )
}
