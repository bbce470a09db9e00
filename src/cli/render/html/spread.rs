//! How evenly things are spread, as a page.

use maud::{Markup, html};

use super::page::{Page, number_cell, table};
use crate::cli::render::spread::{SpreadOf, facts, headline, over, title, value};
use crate::cli::render::text::{Origin, number, plural};
use crate::proto::v1::{DescribeSpreadResponse, DomainSpread, TopologySpread, WorkloadSpread};

/// The answer as a page.
pub(crate) fn spread_html(
    about: &SpreadOf<'_>,
    origin: &Origin<'_>,
    answer: &DescribeSpreadResponse,
) -> String {
    let (verdict, more) = headline(about, answer);
    let good = answer.violating_count == 0;
    let content = html! {
        header.good[good].bad[!good] {
            p.pod { "How evenly workloads are spread" }
            div.verdict {
                h1 { (verdict) }
                @for line in more { p { (line) } }
            }
        }
        @for spread in &answer.workloads { (workload(about, spread)) }
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

/// A workload with all its topologies.
pub(super) fn workload(about: &SpreadOf<'_>, spread: &WorkloadSpread) -> Markup {
    html! {
        section {
            h2 { (title(about, spread)) ": " (plural(spread.pod_count, "pod")) }
            @if spread.pending_count > 0 {
                p { (number(spread.pending_count)) " of them pending" }
            }
            @if !spread.fault.is_empty() { p.bad { "not judged: " (spread.fault) } }
            @if spread.topologies.is_empty() && spread.fault.is_empty() {
                p { "no constraint is in force" }
            }
            @for topology in &spread.topologies { (balance(topology)) }
        }
    }
}

fn balance(topology: &TopologySpread) -> Markup {
    let max_skew = topology.constraint.as_ref().map(|c| i64::from(c.max_skew));
    let limit = max_skew.map(|max| topology.global_minimum.saturating_add(max));
    let counts = topology.domains.iter().map(|domain| domain.matching_pods);
    let longest = counts.chain(limit).max().unwrap_or(1).max(1);
    let rows = topology.domains.iter();
    let rows: Vec<Markup> = rows
        .map(|domain| row(domain, max_skew, limit, longest))
        .collect();
    let head = html! {
        tr {
            th scope="col" { "Domain" }
            th.number scope="col" { "Pods" }
            th.number scope="col" { "Skew" }
            th.number scope="col" { "Nodes" }
            th.bars scope="col" { }
        }
    };
    let more = topology.domain_count - topology.domains.len() as i64;
    html! {
        h3 { "over " (over(topology)) }
        dl {
            @for (what, said) in facts(topology) { dt { (what) } dd { (said) } }
        }
        @if !topology.domains.is_empty() {
            (table("domains", &format!("Domains of {}", topology.topology_key), "domain", &head, &rows))
        }
        @if more > 0 {
            p.more { "... and " (plural(more, "more domain")) " (--max-domains 0 lists them)" }
        }
    }
}

fn row(domain: &DomainSpread, max_skew: Option<i64>, limit: Option<i64>, longest: i64) -> Markup {
    let good = max_skew.is_none_or(|max| domain.skew <= max);
    let percent = |count: i64| format!("{:.2}%", count as f64 * 100.0 / longest as f64);
    let style = format!(
        "--count:{};--added:0%;--limit:{}",
        percent(domain.matching_pods),
        percent(limit.unwrap_or(0))
    );
    html! {
        tr.good[good].bad[!good] {
            th scope="row" { (value(domain)) }
            (number_cell("pods", &number(domain.matching_pods)))
            (number_cell("skew", &number(domain.skew)))
            (number_cell("nodes", &number(domain.eligible_nodes)))
            td.bars {
                div.bar.limited[limit.is_some()] role="img"
                    aria-label=(plural(domain.matching_pods, "pod")) style=(style) {
                    span.room {} span.pods {} span.limit {}
                }
            }
        }
    }
}
