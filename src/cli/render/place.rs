//! Renders the answer of Place.

use std::collections::BTreeMap;

use super::bars::BarScale;
use super::layout::paragraph;
use super::text::{
    BAD, GOOD, HEADING, Head, and_more, headline_style, number, plural, styled, table,
};
use crate::cli::stored::PodsThere;
use crate::explain::{among, but_for, quoted};
use crate::proto::v1::{ConstraintReport, PlaceResponse, Placement};
use crate::visible;

/// The answer as text: summary, picks by node, constraints before and after. `there` are the pods
/// that the workload had before.
pub(crate) fn place(head: &Head, answer: &PlaceResponse, there: &PodsThere) -> String {
    let mut text = head.lines(answer.revision, answer.defaults());
    text.push_str(&summary(answer, there));
    text.push_str(&nodes(head, answer));
    for after in &answer.constraints {
        let mut all = answer.constraints_before.iter();
        let before = all.find(|before| before.constraint_index == after.constraint_index);
        text.push('\n');
        text.push_str(&bars(head, before, after));
    }
    text
}

/// The answer about pods of a StatefulSet, each of which has claims of its own.
pub(crate) fn place_numbered(head: &Head, answer: &PlaceResponse, there: &PodsThere) -> String {
    let mut text = head.lines(answer.revision, answer.defaults());
    text.push_str(&summary(answer, there));
    let pods = &answer.workloads;
    let mut unplaced: Option<&str> = None;
    for pod in pods.iter().filter(|pod| pod.unplaced > 0) {
        let reasons = pod.reasons.iter();
        let reasons = reasons.map(|it| format!("{} {}", number(it.count), it.reason));
        let why = match (unplaced, reasons.collect::<Vec<_>>()) {
            (Some(before), none) if none.is_empty() => format!("waits until {before} is ready"),
            (_, reasons) => reasons.join(", "),
        };
        let line = format!("{}: {why}", visible::text(&pod.pod_name));
        text.push_str(&paragraph(&line, "  ", str::to_owned));
        unplaced = Some(&pod.pod_name);
    }
    text.push_str(&nodes(head, answer));
    let before = pods.first().map(|pod| &*pod.constraints_before);
    let after = pods.last().map(|pod| &*pod.constraints);
    let before = before.unwrap_or_default().iter();
    for (before, after) in before.zip(after.unwrap_or_default()) {
        text.push('\n');
        text.push_str(&bars(head, Some(before), after));
    }
    text
}

/// The answer about several workloads, which have these names.
pub(crate) fn place_together(head: &Head, answer: &PlaceResponse, names: &[String]) -> String {
    let several = plural(names.len() as i64, "workload");
    let head = &Head {
        pod: &several,
        selected: 0,
        ..*head
    };
    let mut text = head.lines(answer.revision, answer.defaults());
    text.push_str(&summary(answer, &PodsThere::default()));
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
        text.push_str(&format!("\n{}\n", styled(HEADING, &visible::text(name))));
        text.push_str(&summary(&one, &PodsThere::default()));
        text.push_str(&nodes(head, &one));
        for (before, after) in workload
            .constraints_before
            .iter()
            .zip(&workload.constraints)
        {
            text.push_str(&bars(head, Some(before), after));
        }
    }
    text
}

/// The line that pods of the workload wait for a node, if any do.
pub(crate) fn waiting(there: &PodsThere) -> Option<String> {
    let waiting = there.waiting.len();
    let verb = if waiting == 1 { "waits" } else { "wait" };
    let names = visible::text(&among(&there.waiting)).into_owned();
    let all = number((there.on_nodes.len() + waiting) as i64);
    let waiting = number(waiting as i64);
    let line = || format!("{waiting} of the {all} {verb} for a node: {names}");
    (!there.waiting.is_empty()).then(line)
}

fn summary(answer: &PlaceResponse, there: &PodsThere) -> String {
    let on_nodes = there.on_nodes.len() as i64;
    let placed = answer.placements.len() as i64;
    let unplaced = i64::from(answer.unplaced);
    let style = headline_style(unplaced == 0, &answer.unchecked);
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
    let mut text = paragraph(&line, "", |line| styled(style, line));
    text.extend(waiting(there).map(|line| paragraph(&line, "", str::to_owned)));
    for reason in &answer.reasons {
        text.push_str(&format!("  {} {}\n", number(reason.count), reason.reason));
    }
    match answer.bound.map(i64::from) {
        // A bound equal to the wanted number says nothing.
        Some(bound) if unplaced > 0 && bound == placed + unplaced && bound > placed => {}
        Some(bound) if unplaced > 0 && bound > placed => {
            text.push_str(&format!("no plan places more than {}\n", number(bound)));
        }
        Some(_) if unplaced > 0 => text.push_str("no plan places more\n"),
        _ => {}
    }
    if let Some(until) = &answer.reserved_until {
        let until = serde_json::to_value(until).unwrap_or_default();
        let until = until.as_str().unwrap_or_default();
        text.push_str(&format!("reserved until {until}\n"));
    }
    for removed in &answer.removed {
        text.push_str(&format!("{} {removed}\n", styled(BAD, "give up")));
    }
    text
}

/// One row per node, in the order in which they were first picked, or per pod that has a name.
fn nodes(head: &Head, answer: &PlaceResponse) -> String {
    if answer.placements.iter().any(|it| !it.pod_name.is_empty()) {
        let row = |it: &Placement| [it.pod_name.clone(), it.node.clone(), number(it.score)];
        let (rows, count) = (answer.placements.iter().map(row), answer.placements.len());
        return head.nodes(["POD", "NODE", "SCORE"], count, rows, "--all lists them");
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
    let (headings, count) = (["NODE", "PICKS", "FIRST SCORE"], rows.len());
    let rows = rows.into_iter();
    let rows = rows.map(|(node, picks, score)| [node.to_owned(), number(picks), number(score)]);
    head.nodes(headings, count, rows, "--all lists them")
}

/// Draws the counts of each domain: `#` for the pods before, `+` for added ones.
fn bars(head: &Head, before: Option<&ConstraintReport>, after: &ConstraintReport) -> String {
    let constraint = after.constraint.clone().unwrap_or_default();
    let title = format!(
        "constraint {}: {}",
        after.constraint_index, constraint.topology_key
    );
    let text = format!(
        "{}, max skew {}, {}\n",
        styled(HEADING, &title),
        constraint.max_skew,
        constraint.when_unsatisfiable
    );
    let domains = before.into_iter().flat_map(|report| &report.domains);
    let counts: BTreeMap<&str, i64> = domains.map(|d| (&*d.value, d.matching_pods)).collect();
    let most = after.domains.iter().map(|d| d.matching_pods).max();
    let scale = BarScale::of_growth(most.unwrap_or(0));
    let mut domains: Vec<_> = after.domains.iter().collect();
    domains.sort_by(|a, b| a.value.cmp(&b.value));
    let listed = head.listed(domains.len());
    let rest = and_more("  ", domains.len() - listed, "domains", "--all lists them");
    let rows = domains.into_iter().take(listed).map(|domain| {
        let now = domain.matching_pods;
        let then = counts.get(&*domain.value).copied().unwrap_or(0);
        [
            quoted(&domain.value),
            number(then),
            number(now),
            scale.draw_growth(then, now, GOOD),
        ]
    });
    text + &table("  ", ["DOMAIN", "BEFORE", "AFTER", "PODS"], rows) + &rest
}
