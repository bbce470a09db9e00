//! Renders plans of nodes.

use super::layout::paragraph;
use super::rebalance::{row, workload};
use super::text::{BAD, GOOD, HEADING, number, plural, source_line, styled, table};
use crate::explain::{joined, quoted};
use crate::proto::v1::plan_nodes_request::Question;
use crate::proto::v1::{NewNodes, PlacedPods, PlanNodesResponse, PodOfNode};

/// The answer as text.
pub(crate) fn nodes(
    snapshot: &str,
    asked: Option<&Question>,
    answer: &PlanNodesResponse,
) -> String {
    let mut text = source_line(snapshot, answer.revision, answer.defaults());
    text.push_str(&format!("{}\n", styled(HEADING, &headline(asked, answer))));
    let lines = remarks(asked, answer).into_iter();
    text.extend(lines.map(|line| paragraph(&line, "", str::to_owned)));
    let is_drain = matches!(asked, Some(Question::Drain(_) | Question::Spare(_)));
    if is_drain && !answer.nodes.is_empty() {
        text.push('\n');
        text.push_str(&table("", LEAVING, leaving(answer)));
    }
    if !answer.moves.is_empty() {
        text.push('\n');
        let rows = answer.moves.iter().enumerate().map(|(at, it)| row(at, it));
        text.push_str(&table("", ["MOVE", "POD", "FROM", "TO", "WHY"], rows));
    }
    if !answer.blocked.is_empty() {
        text.push_str(&format!("\n{}\n", styled(BAD, "Cannot go")));
        text.push_str(&table(
            "",
            ["POD", "NODE", "WHY"],
            answer.blocked.iter().map(of_node),
        ));
    }
    if !answer.new_nodes.is_empty() {
        text.push('\n');
        text.push_str(&table("", NEW, answer.new_nodes.iter().map(new)));
    }
    if !answer.placed.is_empty() {
        text.push_str(&format!("\n{}\n", styled(GOOD, "The pods go to")));
        text.push_str(&table("", ["NODE", "PODS", "OF"], placed(answer)));
    }
    text.extend(answer.workloads.iter().map(workload));
    text
}

/// The heads of tables.
pub(super) const LEAVING: [&str; 5] = ["NODE", "EMPTY", "MOVES", "CANNOT GO", "GO WITH IT"];
/// The same of new nodes.
pub(super) const NEW: [&str; 5] = ["NEW NODES", "LIKE", "IN", "PRICE", "NAMES"];

/// Returns a line with the verdict.
pub(super) fn headline(asked: Option<&Question>, answer: &PlanNodesResponse) -> String {
    let all = answer.nodes.len() as i64;
    let empty = answer.nodes.iter().filter(|node| node.emptied).count() as i64;
    let moves = plural(answer.moves.len() as i64, "move");
    match asked {
        Some(Question::Drain(_)) => {
            format!(
                "{}: {} can be emptied, {moves}",
                plural(all, "node"),
                number(empty)
            )
        }
        Some(Question::Spare(_)) if all == 0 => "no node can go".to_owned(),
        Some(Question::Spare(_)) => format!("{} can go together, {moves}", plural(all, "node")),
        _ if answer.new_nodes.is_empty() => match answer.unplaced.is_empty() {
            true => "no node is needed: all pods fit".to_owned(),
            false => "no new node helps".to_owned(),
        },
        _ => {
            let like = |it: &NewNodes| {
                let domains = domains(it);
                let place = if domains.is_empty() {
                    domains
                } else {
                    format!(" in {domains}")
                };
                let count = plural(it.names.len() as i64, "node");
                format!("{count} like {}{place}", it.template)
            };
            joined(&answer.new_nodes.iter().map(like).collect::<Vec<_>>())
        }
    }
}

/// Returns remarks about the whole plan: what is proven, and what does not fit.
pub(super) fn remarks(asked: Option<&Question>, answer: &PlanNodesResponse) -> Vec<String> {
    let mut lines = Vec::new();
    let why = &answer.bound_reason;
    match asked {
        Some(Question::Drain(_)) if answer.optimal => {}
        Some(Question::Drain(_)) => {
            lines.push("not proven: another order or other nodes may let more pods go".to_owned());
        }
        Some(Question::Spare(_)) => {
            let bound = number(answer.bound);
            lines.push(match answer.optimal {
                true => format!("no more can go than {bound}: {why}"),
                false => format!("not proven: at most {bound} could go, because {why}"),
            });
        }
        _ if answer.price == 0 => {}
        _ => lines.push(match (answer.optimal, answer.bound) {
            (true, _) => format!(
                "proven: less than a price of {} does not do: {why}",
                number(answer.price)
            ),
            (false, 0) => "not proven: fewer or cheaper nodes may do".to_owned(),
            (false, bound) => {
                let bound = number(bound);
                format!("not proven: the price is at least {bound}, because of {why}")
            }
        }),
    }
    lines.extend(answer.unplaced.iter().map(|it| {
        let reasons = it.reasons.join(", ");
        format!(
            "{} of {} fit on no node: {reasons}",
            plural(it.count, "pod"),
            it.name
        )
    }));
    lines
}

/// The cells of the nodes that are drained.
pub(super) fn leaving(answer: &PlanNodesResponse) -> impl Iterator<Item = [String; 5]> {
    answer.nodes.iter().map(|it| {
        let of_node = |pods: &[PodOfNode]| {
            let pods = pods.iter().filter(|pod| pod.node == it.name);
            number(pods.count() as i64)
        };
        let moves = answer.moves.iter().filter(|step| step.from == it.name);
        [
            it.name.clone(),
            if it.emptied { "yes" } else { "no" }.to_owned(),
            number(moves.count() as i64),
            of_node(&answer.blocked),
            of_node(&answer.with_node),
        ]
    })
}

/// The cells of a pod that cannot go.
pub(super) fn of_node(it: &PodOfNode) -> [String; 3] {
    let pod = format!("{}/{}", it.namespace, it.pod);
    [pod, it.node.clone(), it.text.clone()]
}

/// The cells of new nodes.
pub(super) fn new(it: &NewNodes) -> [String; 5] {
    [
        number(it.names.len() as i64),
        it.template.clone(),
        domains(it),
        number(it.price),
        it.names.join(", "),
    ]
}

/// The cells of the nodes that pods go to, each with the pods of one kind.
pub(super) fn placed(answer: &PlanNodesResponse) -> impl Iterator<Item = [String; 3]> {
    let mut sums: Vec<(&PlacedPods, i64)> = Vec::new();
    for it in &answer.placed {
        let same = |known: &PlacedPods| {
            (&known.node, known.index, &known.name, &known.namespace)
                == (&it.node, it.index, &it.name, &it.namespace)
        };
        match sums.iter_mut().find(|(known, _)| same(known)) {
            Some((_, sum)) => *sum += it.count,
            None => sums.push((it, it.count)),
        }
    }
    sums.sort_by(|one, other| one.0.node.cmp(&other.0.node));
    sums.into_iter().map(|(it, sum)| {
        let of = format!("{}/{}", it.namespace, it.name);
        [it.node.clone(), number(sum), of]
    })
}

/// The domains of new nodes: `zone zone-c`.
fn domains(it: &NewNodes) -> String {
    let domains = it.domains.iter().map(|(key, value)| {
        let key = key.rsplit('/').next().unwrap_or_default();
        format!("{key} {}", quoted(value))
    });
    domains.collect::<Vec<_>>().join(", ")
}
