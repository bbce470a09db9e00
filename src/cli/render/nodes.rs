//! Renders plans of nodes.

use std::collections::BTreeMap;

use super::page::{Look, Page, Parts, Source, Table};
use super::plans::{moves, workloads};
use super::text::{number, plural};
use crate::explain::{joined, quoted};
use crate::proto::v1::plan_nodes_request::Question;
use crate::proto::v1::{NewNodes, PlanNodesResponse, PodOfNode};

/// The answer of PlanNodes: a row for each node that leaves or comes, for each move and for each pod
/// that cannot go, and for each workload a bar for each domain.
pub(crate) fn nodes(source: &Source, asked: Option<&Question>, answer: &PlanNodesResponse) -> Page {
    let is_well = answer.blocked.is_empty() && answer.unplaced.is_empty();
    let (about, drains) = match asked {
        Some(Question::Drain(_)) => ("Where the pods of nodes go", true),
        Some(Question::Spare(_)) => ("Which nodes can go", true),
        _ => ("How many nodes must come", false),
    };
    let mut parts = Parts::default();
    parts.lines(remarks(asked, answer));
    if drains {
        let headings = ["NODE", "EMPTY", "MOVES", "CANNOT GO", "GO WITH IT"];
        parts.table(Table::new("node", headings, leaving(answer)));
    }
    parts.table(moves(&answer.moves));
    let blocked = answer.blocked.iter().map(of_node);
    let blocked = Table::new("pod", ["POD", "NODE", "WHY"], blocked);
    parts.listed("Cannot go", blocked);
    let headings = ["NEW NODES", "LIKE", "IN", "PRICE", "NAMES"];
    let new = answer.new_nodes.iter().map(new);
    parts.table(Table::new("row", headings, new));
    let placed = Table::new("node", ["NODE", "PODS", "OF"], placed(answer));
    parts.listed("The pods go to", placed);
    workloads(&mut parts, &answer.workloads);
    Page::new("nodes", format!("{about}: {}", source.snapshot))
        .of(source, answer.revision, answer.defaults())
        .verdict(Look::of(is_well), headline(asked, answer))
        .with(parts)
}

/// Returns a line with the verdict.
fn headline(asked: Option<&Question>, answer: &PlanNodesResponse) -> String {
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
fn remarks(asked: Option<&Question>, answer: &PlanNodesResponse) -> Vec<String> {
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
fn leaving(answer: &PlanNodesResponse) -> impl Iterator<Item = [String; 5]> {
    answer.nodes.iter().map(|it| {
        let of_node = |pods: &[PodOfNode]| {
            let pods = pods
                .iter()
                .filter(|pod| pod.node == it.name && !pod.pod.is_empty());
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

/// The cells of a pod that cannot go, or of a node that stays for the pods of others.
fn of_node(it: &PodOfNode) -> [String; 3] {
    let pod = match &*it.pod {
        "" => "(the node itself)".to_owned(),
        pod => format!("{}/{pod}", it.namespace),
    };
    [pod, it.node.clone(), it.text.clone()]
}

/// The cells of new nodes.
fn new(it: &NewNodes) -> [String; 5] {
    [
        number(it.names.len() as i64),
        it.template.clone(),
        domains(it),
        number(it.price),
        it.names.join(", "),
    ]
}

/// The cells of the nodes that pods go to, each with the pods of one kind.
fn placed(answer: &PlanNodesResponse) -> impl Iterator<Item = [String; 3]> {
    let mut sums: BTreeMap<_, i64> = BTreeMap::new();
    for it in &answer.placed {
        let place = (&it.node, &it.namespace, &it.name, it.index);
        *sums.entry(place).or_default() += it.count;
    }
    let cells = |((node, namespace, name, _), sum): ((&String, &String, &String, _), _)| {
        [node.clone(), number(sum), format!("{namespace}/{name}")]
    };
    sums.into_iter().map(cells)
}

/// The domains of new nodes: `zone zone-c`.
fn domains(it: &NewNodes) -> String {
    let domains = it.domains.iter().map(|(key, value)| {
        let key = key.rsplit('/').next().unwrap_or_default();
        format!("{key} {}", quoted(value))
    });
    domains.collect::<Vec<_>>().join(", ")
}
