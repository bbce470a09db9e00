//! Renders a plan of moves.

use super::layout::paragraph;
use super::scale_down::changed_topology;
use super::spread::{name_of_workload, not_judged};
use super::text::{
    BAD, GOOD, HEADING, found_by_selector, number, plural, source_line, styled, table,
};
use crate::explain::quoted;
use crate::proto::v1::{MoveBlocker, MoveEffect, PodMove, RebalanceResponse, RebalancedWorkload};

/// The answer as text: a row for each move, and for each workload a bar for each domain, and the
/// blockers.
pub(crate) fn rebalance(snapshot: &str, answer: &RebalanceResponse) -> String {
    let mut text = source_line(snapshot, answer.revision, answer.defaults());
    text.push_str(&format!("{}\n", styled(HEADING, &headline(answer))));
    let lines = remarks(answer).into_iter();
    text.extend(lines.map(|line| paragraph(&line, "", str::to_owned)));
    if !answer.moves.is_empty() {
        text.push('\n');
        let rows = answer.moves.iter().enumerate().map(|(at, it)| row(at, it));
        text.push_str(&table("", ["MOVE", "POD", "FROM", "TO", "WHY"], rows));
    }
    text.extend(answer.workloads.iter().map(workload));
    text
}

/// Returns a line with the numbers of moves and workloads.
pub(super) fn headline(answer: &RebalanceResponse) -> String {
    let is_violated = |it: &&RebalancedWorkload| {
        it.fault.is_empty() || it.move_count > 0 || !it.blockers.is_empty()
    };
    let violated: Vec<_> = answer.workloads.iter().filter(is_violated).collect();
    let workloads = violated.len();
    let even = violated.iter().filter(|it| it.blockers.is_empty()).count();
    match (workloads, answer.moves.len()) {
        (0, _) => "no constraint is violated: nothing to move".to_owned(),
        (_, 0) => format!(
            "{} violated, and no move helps",
            plural(workloads as i64, "workload")
        ),
        (_, moves) => format!(
            "{}: {} of {} even afterwards",
            plural(moves as i64, "move"),
            number(even as i64),
            plural(workloads as i64, "workload")
        ),
    }
}

/// Returns remarks about the whole plan.
pub(super) fn remarks(answer: &RebalanceResponse) -> Vec<String> {
    let faulty = answer.workloads.iter().filter(|it| !it.fault.is_empty());
    let mut lines = Vec::from_iter(not_judged(faulty.count() as i64));
    if answer.capped {
        lines.push("more moves would help: a limit of moves is reached".to_owned());
    }
    if !answer.optimal && !answer.moves.is_empty() {
        lines.push("fewer moves may do as much".to_owned());
    }
    lines
}

pub(super) fn row(at: usize, it: &PodMove) -> [String; 5] {
    let pod = match it.successor_of {
        0 => format!("{}/{}", it.namespace, it.pod),
        earlier => format!("the pod of move {earlier}"),
    };
    let waits = it.waits_for_node.then(|| "waits for the node".to_owned());
    let why: Vec<String> = it.why.iter().map(effect).chain(waits).collect();
    [
        number(at as i64 + 1),
        pod,
        it.from.clone(),
        it.to.clone(),
        why.join(", "),
    ]
}

/// Returns the effect of a move: `zone a 4 -> b 1`.
pub(super) fn effect(it: &MoveEffect) -> String {
    let domain = |value: &str, pods: i64| match value {
        "" => "no domain".to_owned(),
        value => format!("{} {}", quoted(value), number(pods)),
    };
    let key = it.topology_key.rsplit('/').next().unwrap_or_default();
    let (from, to) = (
        domain(&it.from_value, it.from_pods),
        domain(&it.to_value, it.to_pods),
    );
    match it.from_value == it.to_value {
        true => format!("{key} {from} stays"),
        false => format!("{key} {from} -> {to}"),
    }
}

/// The name of a workload.
pub(super) fn name_of(it: &RebalancedWorkload) -> String {
    name_of_workload(&it.namespace, &it.kind, &it.name, &it.labels)
}

pub(super) fn workload(it: &RebalancedWorkload) -> String {
    let title = format!("{}: {}", name_of(it), plural(it.move_count, "move"));
    let style = if it.blockers.is_empty() { GOOD } else { BAD };
    let mut text = format!("\n{}\n", styled(style, &title));
    if !it.fault.is_empty() {
        let line = format!("not judged by their constraints: {}", it.fault);
        text.push_str(&paragraph(&line, "  ", str::to_owned));
    }
    let selected = found_by_selector(it.selected_count);
    text.extend(selected.map(|line| paragraph(&line, "  ", str::to_owned)));
    for (before, after) in it.before.iter().zip(&it.after) {
        text.push_str(&changed_topology(before, after));
    }
    let blockers = it.blockers.iter().map(blocker);
    text.extend(blockers.map(|line| paragraph(&line, "  ", str::to_owned)));
    text
}

/// Returns a blocker, in words.
pub(super) fn blocker(it: &MoveBlocker) -> String {
    let place = match (&*it.topology_key, &*it.domain) {
        ("", _) => String::new(),
        (key, "") => format!("{key}: "),
        (key, domain) => format!("{key} {}: ", quoted(domain)),
    };
    let count = match it.count {
        0 => String::new(),
        count => format!(" ({})", number(count)),
    };
    format!("in the way: {place}{}{count}", it.text)
}
