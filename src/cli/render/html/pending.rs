//! Renders the pods that wait for a node as a page.

use maud::{Markup, html};

use super::explain::body;
use super::page::{Column, Look, Page, header, listed, number_cell};
use crate::cli::render::explain::untold;
use crate::cli::render::pending::{PendingPods, PendingWorkload, fit_text, of_scheduler, verdict};
use crate::cli::render::spread::name_of_workload;
use crate::cli::render::text::{Provenance, number};
use crate::proto::v1::{DefaultsKind, ExplainResponse};

/// The pending pods as a page: a table of their workloads, and for each the explanation of the pod
/// with the fewest nodes to go to.
pub(crate) fn pending_html(origin: &Provenance<'_>, pending: &PendingPods) -> String {
    let (first, is_well) = verdict(pending);
    let look = if is_well { Look::Good } else { Look::Bad };
    let head = [
        Column::Text("Workload"),
        Column::Number("Pods"),
        Column::Number("Fit nowhere"),
        Column::Text("Why"),
    ];
    let rows = pending.workloads.iter().map(|workload| {
        html! {
            tr {
                th scope="row" { (name(workload)) }
                (number_cell("pods", &number(workload.pods.len())))
                (number_cell("fit nowhere", &number(workload.stuck_count)))
                td { (workload.explanation.summary) }
            }
        }
    });
    let content = html! {
        (header(look, "Pods that wait for a node", &first, &[]))
        (listed(&html! { "Workloads" }, "Workloads", &head, rows))
        @for workload in &pending.workloads { (one(workload)) }
    };
    let newest = pending.workloads.iter().map(|it| &it.explanation);
    let newest = newest.max_by_key(|answer| answer.revision);
    let page = Page {
        title: format!("Pending pods of {}", origin.snapshot),
        command: "explain --pending",
        origin,
        revision: newest.map_or(0, |answer| answer.revision),
        defaults: newest.map_or(DefaultsKind::Unspecified, ExplainResponse::defaults),
    };
    page.write(&content)
}

fn name(workload: &PendingWorkload) -> String {
    name_of_workload(
        &workload.namespace,
        &workload.kind,
        &workload.name,
        &workload.labels,
    )
}

/// The explanation of one pod of a workload.
fn one(workload: &PendingWorkload) -> Markup {
    let answer = &workload.explanation;
    html! {
        section {
            h2 { (name(workload)) ": " (fit_text(workload)) }
            p { "pod " (workload.explained_pod) ": " (answer.summary) }
            @for line in of_scheduler(workload) { p { (line) } }
            @if !untold(answer).is_empty() {
                p { "not checked: " (untold(answer).join(", ")) }
            }
        }
        (body(answer))
    }
}
