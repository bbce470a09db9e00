//! Renders the answer of Place.

use std::collections::BTreeMap;

use super::decision::{heading, reasons};
use super::page::{Head, Look, Page, PagePart, Parts, Table};
use super::plans::changed_domains;
use super::text::{Bar, number, plural};
use crate::cli::stored::PodsThere;
use crate::explain::{among, but_for};
use crate::proto::v1::{ConstraintReport, PlaceResponse, Placement};

/// How to see what a table leaves out.
const ALL: &str = "--all lists them";

/// The answer: summary, picks by node, constraints before and after. `there` are the pods that the
/// workload had before. The pods of a StatefulSet, each of which has claims of its own, are workloads
/// of the answer.
pub(crate) fn place(head: &Head, answer: &PlaceResponse, there: &PodsThere) -> Page {
    let mut parts = Parts::default();
    parts.lines(waiting(there));
    rest(&mut parts, answer);
    let pods = &answer.workloads;
    let mut unplaced: Option<&str> = None;
    for pod in pods.iter().filter(|pod| pod.unplaced > 0) {
        let reasons = pod.reasons.iter();
        let reasons = reasons.map(|it| format!("{} {}", number(it.count), it.reason));
        let why = match (unplaced, reasons.collect::<Vec<_>>()) {
            (Some(before), none) if none.is_empty() => format!("waits until {before} is ready"),
            (_, reasons) => reasons.join(", "),
        };
        parts.indented([format!("{}: {why}", pod.pod_name)]);
        unplaced = Some(&pod.pod_name);
    }
    parts.table(nodes(head, answer));
    // They are in the order of their numbers, which need not be that in which they were placed.
    let of = |it: &Placement| pods.get(usize::try_from(it.workload).unwrap_or(0));
    let first = answer.placements.first().map_or(pods.first(), of);
    let last = answer.placements.last().map_or(pods.last(), of);
    let before = first.map_or(&answer.constraints_before, |pod| &pod.constraints_before);
    let after = last.map_or(&answer.constraints, |pod| &pod.constraints);
    changes(&mut parts, head, before, after);
    page(head, answer, there).with(parts)
}

/// The answer about several workloads, which have these names.
pub(crate) fn place_together(head: &Head, answer: &PlaceResponse, names: &[String]) -> Page {
    let several = plural(names.len(), "workload");
    let head = &Head {
        pod: &several,
        source: head.source.clone(),
        selected: 0,
        ..*head
    };
    let nobody = PodsThere::default();
    let mut parts = Parts::default();
    rest(&mut parts, answer);
    for (index, (workload, name)) in answer.workloads.iter().zip(names).enumerate() {
        let is_of = |placement: &&Placement| usize::try_from(placement.workload) == Ok(index);
        let placements = answer.placements.iter().filter(is_of);
        let one = PlaceResponse {
            placements: placements.cloned().collect(),
            unplaced: workload.unplaced,
            reasons: workload.reasons.clone(),
            unchecked: workload.unchecked.clone(),
            bound: workload.bound,
            ..PlaceResponse::default()
        };
        let mut below = Parts::default();
        let (look, line) = summary(&one, &nobody);
        below.styled(look, line);
        rest(&mut below, &one);
        below.table(nodes(head, &one));
        let before = &workload.constraints_before;
        changes(&mut below, head, before, &workload.constraints);
        parts.section(name, below);
    }
    page(head, answer, &nobody).with(parts)
}

fn page(head: &Head, answer: &PlaceResponse, there: &PodsThere) -> Page {
    let (look, verdict) = summary(answer, there);
    head.page("place", answer.revision, answer.defaults())
        .verdict(look, verdict)
}

fn summary(answer: &PlaceResponse, there: &PodsThere) -> (Look, String) {
    let on_nodes = there.on_nodes.len() as i64;
    let placed = answer.placements.len() as i64;
    let unplaced = i64::from(answer.unplaced);
    let mut line = format!(
        "placed: {} of {}",
        number(placed),
        number(placed + unplaced)
    );
    if on_nodes > 0 {
        line.push_str(&format!(" more, {} in all", number(on_nodes + placed)));
    }
    if placed > 0 {
        line.push_str(&but_for(&answer.unchecked));
    }
    (Look::of_verdict(unplaced == 0, &answer.unchecked), line)
}

/// Names the pods that wait for a node, if there are any.
pub(crate) fn waiting(there: &PodsThere) -> Option<String> {
    let (on_nodes, waiting) = (there.on_nodes.len(), there.waiting.len());
    let verb = if waiting == 1 { "waits" } else { "wait" };
    let (count, all) = (number(waiting), number(on_nodes + waiting));
    let names = among(&there.waiting);
    (waiting > 0).then(|| format!("{count} of the {all} {verb} for a node: {names}"))
}

/// Adds why replicas are on no node, and what else is to be said of a plan.
fn rest(parts: &mut Parts, answer: &PlaceResponse) {
    let placed = answer.placements.len() as i64;
    let unplaced = i64::from(answer.unplaced);
    reasons(parts, &answer.reasons);
    match answer.bound.map(i64::from) {
        // A bound equal to the wanted number says nothing.
        Some(bound) if unplaced > 0 && bound == placed + unplaced && bound > placed => {}
        Some(bound) if unplaced > 0 && bound > placed => {
            parts.line(format!("no plan places more than {}", number(bound)));
        }
        Some(_) if unplaced > 0 => _ = parts.line("no plan places more"),
        _ => {}
    }
    if let Some(until) = &answer.reserved_until {
        let until = serde_json::to_value(until).unwrap_or_default();
        let until = until.as_str().unwrap_or_default();
        parts.line(format!("reserved until {until}"));
    }
    for removed in &answer.removed {
        parts.styled(Look::Bad, format!("give up {removed}"));
    }
}

/// One row per node, in the order in which they were first picked, or per pod that has a name.
fn nodes(head: &Head, answer: &PlaceResponse) -> Table {
    if answer.placements.iter().any(|it| !it.pod_name.is_empty()) {
        let row = |it: &Placement| [it.pod_name.clone(), it.node.clone(), number(it.score)];
        let rows = answer.placements.iter().map(row);
        let table = Table::new("node", ["POD", "NODE", "SCORE"], rows);
        return head.listed(table, ALL);
    }
    let mut rows: Vec<(&str, i64, i64)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for placement in &answer.placements {
        let place = *places.entry(&placement.node).or_insert(rows.len());
        match rows.get_mut(place) {
            Some((_, picks, _)) => *picks += 1,
            None => rows.push((&placement.node, 1, placement.score)),
        }
    }
    let rows = rows.into_iter();
    let rows = rows.map(|(node, picks, score)| [node.to_owned(), number(picks), number(score)]);
    let table = Table::new("node", ["NODE", "PICKS", "FIRST SCORE"], rows);
    head.listed(table, ALL)
}

/// Adds the counts of each domain by constraints, before and after.
fn changes(
    parts: &mut Parts,
    head: &Head,
    before: &[ConstraintReport],
    after: &[ConstraintReport],
) {
    for after in after {
        let mut all = before.iter();
        let before = all.find(|before| before.constraint_index == after.constraint_index);
        let constraint = after.constraint.clone().unwrap_or_default();
        let domains = before.into_iter().flat_map(|report| &report.domains);
        let counts: BTreeMap<&str, i64> = domains.map(|d| (&*d.value, d.matching_pods)).collect();
        let mut domains: Vec<_> = after.domains.iter().collect();
        domains.sort_by(|a, b| a.value.cmp(&b.value));
        let bar = |count: i64| Bar {
            count,
            ..Bar::default()
        };
        let rows = domains.into_iter().map(|domain| {
            let then = counts.get(&*domain.value).copied().unwrap_or(0);
            (&*domain.value, bar(then), bar(domain.matching_pods))
        });
        let heading = heading("constraint", after.constraint_index, &constraint);
        let mut below = Parts::default();
        below.table(head.listed(changed_domains(rows), ALL));
        parts.push(PagePart::Section(heading, below));
    }
}
