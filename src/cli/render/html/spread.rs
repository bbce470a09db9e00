//! Renders the spread of workloads as a page.

use maud::{Markup, html};

use super::page::{
    Column, Look, Page, bar_cell, header, longest_bar, more_domains, number_cell, table,
};
use crate::cli::render::bars::Bar;
use crate::cli::render::spread::{SpreadOf, bar_of, facts, headline, over, title};
use crate::cli::render::text::{Provenance, found_by_selector, number, plural};
use crate::explain::quoted;
use crate::proto::v1::{
    DescribeSpreadResponse, DomainSpread, LabelSelector, TopologySpread, WorkloadSpread,
};

/// The answer as a page.
pub(crate) fn spread_html(
    about: &SpreadOf<'_>,
    origin: &Provenance<'_>,
    answer: &DescribeSpreadResponse,
) -> String {
    let (verdict, more) = headline(about, answer);
    let look = match answer.violating_count {
        0 => Look::Good,
        _ => Look::Bad,
    };
    let content = html! {
        (header(look, "How evenly workloads are spread", &verdict, &more))
        @for spread in &answer.workloads { (workload(about.selector, spread, Some("--max-domains 0"))) }
    };
    let page = Page {
        title: format!("Spread of {}", origin.snapshot),
        command: "spread",
        origin,
        revision: answer.revision,
        defaults: answer.defaults(),
    };
    page.write(&content)
}

/// A workload with all its topologies. `more` is the flag that lists more domains.
pub(super) fn workload(
    selector: Option<&LabelSelector>,
    spread: &WorkloadSpread,
    more: Option<&str>,
) -> Markup {
    html! {
        section {
            h2 { (title(selector, spread)) ": " (plural(spread.pod_count, "pod")) }
            @if spread.pending_count > 0 {
                p { (number(spread.pending_count)) " of them pending" }
            }
            @if let Some(line) = found_by_selector(spread.selected_count) { p { (line) } }
            @if !spread.fault.is_empty() { p.bad { "not judged: " (spread.fault) } }
            @if spread.topologies.is_empty() && spread.fault.is_empty() {
                p { "no constraint is in force" }
            }
            @for topology in &spread.topologies { (balance(topology, &spread.kind, more)) }
        }
    }
}

fn balance(topology: &TopologySpread, kind: &str, flag: Option<&str>) -> Markup {
    let max_skew = topology.constraint.as_ref().map(|c| i64::from(c.max_skew));
    let limit = max_skew.map(|max| topology.global_minimum.saturating_add(max));
    let bars = || topology.domains.iter().map(|domain| bar_of(domain, limit));
    let longest = longest_bar(bars());
    let rows = topology.domains.iter().zip(bars());
    let rows = rows.map(|(domain, bar)| row(domain, max_skew, bar, longest));
    let head = [
        Column::Text("Domain"),
        Column::Number("Pods"),
        Column::Number("Skew"),
        Column::Number("Nodes"),
        Column::Bars(html! {}),
    ];
    let more = topology.domain_count - topology.domains.len() as i64;
    html! {
        h3 { "over " (over(topology)) }
        dl {
            @for (what, said) in facts(topology, kind) { dt { (what) } dd { (said) } }
        }
        @if !topology.domains.is_empty() {
            (table("domains", &format!("Domains of {}", topology.topology_key), "domain", &head, rows))
        }
        (more_domains(more, flag))
    }
}

fn row(domain: &DomainSpread, max_skew: Option<i64>, bar: Bar, longest: i64) -> Markup {
    let good = max_skew.is_none_or(|max| domain.skew <= max);
    html! {
        tr.good[good].bad[!good] {
            th scope="row" { (quoted(&domain.value)) }
            (number_cell("pods", &number(domain.matching_pods)))
            (number_cell("skew", &number(domain.skew)))
            (number_cell("nodes", &number(domain.eligible_nodes)))
            (bar_cell(bar, longest, &plural(domain.matching_pods, "pod")))
        }
    }
}
