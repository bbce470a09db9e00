//! Renders a report on a whole cluster.

use super::bars::Bar;
use super::coverage;
use super::look::Look;
use super::page::{Page, PagePart, Parts, Source, Table, TableCell};
use super::spread;
use super::text::{number, plural};
use crate::cli::report::judge::{ClusterReport, DomainLoad};
use crate::explain::quoted;

/// The report.
pub(crate) fn report(source: &Source, report: &ClusterReport) -> Page {
    let mut parts = Parts::default();
    let stuck = report.stuck.iter();
    let stuck = stuck.map(|it| [it.workload.clone(), number(it.pods), it.reason.clone()]);
    listed(
        &mut parts,
        "fit nowhere",
        Table::new("workload", ["WORKLOAD", "PODS", "REASON"], stuck),
    );
    constraints(&mut parts, report);
    let risks = report.risks.iter();
    let risks = risks.map(|it| [it.workload.clone(), number(it.pods), it.risk.clone()]);
    listed(
        &mut parts,
        "risks",
        Table::new("workload", ["WORKLOAD", "PODS", "RISK"], risks),
    );
    let mut load = Parts::default();
    if report.load.len() > 1 {
        listed(
            &mut load,
            &format!("load by {}", report.by),
            loads(&report.load),
        );
    }
    parts.push(PagePart::OnPage(load));
    let headings = ["WORKLOAD", "PODS", "FULLEST", "IF EVEN"];
    let rows = report.unbalanced.iter().map(|one| {
        [
            one.workload.clone(),
            number(one.pods),
            format!("{} {}", one.fullest, number(one.most)),
            number(one.even),
        ]
    });
    let unbalanced = format!("unbalanced over {}", report.by);
    listed(
        &mut parts,
        &unbalanced,
        Table::new("workload", headings, rows),
    );
    let mut page = Page::new("report", format!("Report on {}", source.snapshot));
    page.remarks.push(format!(
        "{}, {}, {}",
        plural(report.node_count, "node"),
        plural(report.pod_count, "pod"),
        plural(report.constraints.workload_count, "workload")
    ));
    page.of(source, report.revision, report.constraints.defaults())
        .verdict(look(report), coverage::verdict(&report.constraints))
        .with(parts)
}

fn look(report: &ClusterReport) -> Look {
    Look::of(report.constraints.violating_count == 0 && report.stuck.is_empty())
}

/// Adds a table under a heading, unless it is empty.
fn listed(parts: &mut Parts, heading: &str, table: Table) {
    let mut below = Parts::default();
    below.table(table);
    parts.section(heading, below);
}

/// Adds the rules that keep workloads even, the pods that cannot be judged, and what
/// violates constraints.
fn constraints(parts: &mut Parts, report: &ClusterReport) {
    let answer = &report.constraints;
    let mut below = Parts::default();
    below
        .lines(coverage::lines(answer))
        .lines(report.not_judged.iter().map(ToString::to_string));
    let mut advice = Parts::default();
    advice.lines(coverage::advice(answer, false));
    below.push(PagePart::InText(advice));
    parts.section("constraints", below);
    let beyond = "beyond max skew";
    let mut text = Parts::default();
    listed(&mut text, beyond, spread::violations(answer));
    parts.push(PagePart::InText(text));
    let workloads = answer.workloads.iter();
    let workloads: Vec<PagePart> = workloads.map(|it| spread::workload(None, it, "")).collect();
    if !workloads.is_empty() {
        let mut page = Parts::default();
        page.apart(Look::Strong, beyond);
        page.0.extend(workloads);
        parts.push(PagePart::OnPage(page));
    }
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
fn loads(loads: &[DomainLoad]) -> Table {
    let drawn = scarcest(loads);
    let rows = loads.iter().map(|it| {
        let share = it.shares.iter().find(|it| Some(&*it.resource) == drawn);
        let bar = Bar {
            count: share.map_or(it.pods, |share| share.percent),
            added: 0,
            limit: share.map(|_| 100),
        };
        let shares: Vec<String> = it.shares.iter().map(ToString::to_string).collect();
        let shares = shares.join("; ");
        let said = format!("{} {shares}", plural(it.pods, "pod"));
        [
            quoted(&it.domain).into(),
            number(it.pods).into(),
            shares.into(),
            TableCell::Bar(Look::Plain, bar, said),
        ]
    });
    let unit = match drawn {
        Some(resource) => format!("{resource} requested, in % of what nodes have"),
        None => "pods".to_owned(),
    };
    let headings = ["DOMAIN", "PODS", "REQUESTED", ""];
    Table::new("domain", headings, rows).legend(vec![("pods", unit)])
}
