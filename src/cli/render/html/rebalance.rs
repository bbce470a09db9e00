//! Renders a plan of moves as a page, with bars before and after.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::page::{Column, Look, Page, bar_cell, header, longest_bar, number_cell, table};
use crate::cli::render::bars::Bar;
use crate::cli::render::rebalance::{blocker, effect, headline, name_of, remarks};
use crate::cli::render::spread::over;
use crate::cli::render::text::{Provenance, number, plural};
use crate::explain::quoted;
use crate::proto::v1::{
    DomainSpread, PodMove, RebalanceResponse, RebalancedWorkload, TopologySpread,
};

/// The answer as a page.
pub(crate) fn rebalance_html(origin: &Provenance<'_>, answer: &RebalanceResponse) -> String {
    let look = match answer.workloads.iter().all(|it| it.blockers.is_empty()) {
        true => Look::Good,
        false => Look::Bad,
    };
    let moves = answer.moves.iter().enumerate().map(|(at, it)| row(at, it));
    let head = [
        Column::Number("Move"),
        Column::Text("Pod"),
        Column::Text("From → to"),
        Column::Text("Why"),
    ];
    let content = html! {
        (header(look, "Which pods to move", &headline(answer), &remarks(answer)))
        @if !answer.moves.is_empty() {
            section {
                h2 { "Moves" }
                (table("list", "Moves in their order", "move", &head, moves))
            }
        }
        @for it in &answer.workloads { (workload(it)) }
    };
    let page = Page {
        title: format!("Moves in {}", origin.snapshot),
        command: "rebalance",
        origin,
        revision: answer.revision,
        defaults: answer.defaults(),
    };
    page.write(&content)
}

fn row(at: usize, it: &PodMove) -> Markup {
    let why: Vec<String> = it.why.iter().map(effect).collect();
    html! {
        tr {
            (number_cell("move", &number(at as i64 + 1)))
            th scope="row" { (it.namespace) "/" (it.pod) }
            td { (it.from) " → " (it.to) }
            td { (why.join(", ")) }
        }
    }
}

pub(super) fn workload(it: &RebalancedWorkload) -> Markup {
    html! {
        section {
            h2 { (name_of(it)) ": " (plural(it.move_count, "move")) }
            @if !it.fault.is_empty() { p.bad { "not judged: " (it.fault) } }
            @for line in it.blockers.iter().map(blocker) { p.bad { (line) } }
            @for (before, after) in it.before.iter().zip(&it.after) { (topology(before, after)) }
        }
    }
}

fn topology(before: &TopologySpread, after: &TopologySpread) -> Markup {
    let now = after.domains.iter();
    let now: BTreeMap<&str, i64> = now.map(|it| (&*it.value, it.matching_pods)).collect();
    let bar_of = |topology: &TopologySpread, count: i64| {
        let max_skew = topology
            .constraint
            .as_ref()
            .map(|it| i64::from(it.max_skew));
        Bar {
            count,
            added: 0,
            limit: max_skew.map(|max| topology.global_minimum.saturating_add(max)),
        }
    };
    let both = |it: &DomainSpread| {
        let now = now.get(&*it.value).copied().unwrap_or(0);
        [bar_of(before, it.matching_pods), bar_of(after, now)]
    };
    let all = before.domains.iter().flat_map(both);
    let longest = longest_bar(all);
    let head = [
        Column::Text("Domain"),
        Column::Number("Before"),
        Column::Number("After"),
        Column::Bars(html! { "before" }),
        Column::Bars(html! { "after" }),
    ];
    let rows = before.domains.iter().map(|it| {
        let [then, now] = both(it);
        html! {
            tr.good {
                th scope="row" { (quoted(&it.value)) }
                (number_cell("before", &number(then.count)))
                (number_cell("after", &number(now.count)))
                (bar_cell(then, longest, &plural(then.count, "pod")))
                (bar_cell(now, longest, &plural(now.count, "pod")))
            }
        }
    });
    html! {
        h3 { "over " (over(before)) ": skew " (number(before.skew)) " → " (number(after.skew)) }
        (table("domains", &format!("Domains of {}", before.topology_key), "domain", &head, rows))
    }
}
