//! Renders plans of nodes as a page, with bars before and after.

use maud::{Markup, html};

use super::page::{Column, Look, Page, header, table};
use super::rebalance::workload;
use crate::cli::render::nodes::{LEAVING, NEW, headline, leaving, new, of_node, placed, remarks};
use crate::cli::render::rebalance::row;
use crate::cli::render::text::Provenance;
use crate::proto::v1::PlanNodesResponse;
use crate::proto::v1::plan_nodes_request::Question;

/// The answer as a page.
pub(crate) fn nodes_html(
    origin: &Provenance<'_>,
    asked: Option<&Question>,
    answer: &PlanNodesResponse,
) -> String {
    let is_well = answer.blocked.is_empty() && answer.unplaced.is_empty();
    let look = if is_well { Look::Good } else { Look::Bad };
    let about = match asked {
        Some(Question::Drain(_)) => "Where the pods of nodes go",
        Some(Question::Spare(_)) => "Which nodes can go",
        _ => "How many nodes must come",
    };
    let moves = answer.moves.iter().enumerate().map(|(at, it)| row(at, it));
    let head = ["Move", "Pod", "From", "To", "Why"];
    let content = html! {
        (header(look, about, &headline(asked, answer), &remarks(asked, answer)))
        (section("Nodes", LEAVING, leaving(answer)))
        (section("New nodes", NEW, answer.new_nodes.iter().map(new)))
        (section("Moves", head, moves))
        (section("Cannot go", ["Pod", "Node", "Why"], answer.blocked.iter().map(of_node)))
        (section("The pods go to", ["Node", "Pods", "Of"], placed(answer)))
        @for it in &answer.workloads { (workload(it)) }
    };
    let page = Page {
        title: format!("Nodes of {}", origin.snapshot),
        command: "nodes",
        origin,
        revision: answer.revision,
        defaults: answer.defaults(),
    };
    page.write(&content)
}

/// A section with a table, unless it has no rows.
fn section<const N: usize>(
    title: &str,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Markup {
    let mut rows = rows.peekable();
    let head = head.map(Column::Text);
    html! {
        @if rows.peek().is_some() {
            section {
                h2 { (title) }
                (table("list", title, "row", &head, rows.map(|row| html! {
                    tr { @for cell in row { td { (cell) } } }
                })))
            }
        }
    }
}
