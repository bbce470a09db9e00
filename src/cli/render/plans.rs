//! Renders plans: the pods of a workload that go, and the pods that move.

use std::collections::BTreeMap;

use super::page::{Look, Page, PagePart, Parts, Source, Table, TableCell, found_by_selector};
use super::spread::{bar_of, name_of_workload, not_judged, over};
use super::text::{Bar, number, plural};
use crate::explain::{among, joined, quoted};
use crate::proto::v1::{
    MoveBlocker, MoveEffect, PodMove, RankRemovalsResponse, RebalanceResponse, RebalancedWorkload,
    Removal, RemovalRule, TopologySpread,
};

/// The answer of RankRemovals: a row for each pod, and a bar for each domain. `workload` is the name
/// of the workload, e.g. `Deployment/shop/web`.
pub(crate) fn scale_down(source: &Source, workload: &str, answer: &RankRemovalsResponse) -> Page {
    let verb = match answer.rule() {
        RemovalRule::HighestOrdinals => "go, those with the highest ordinals",
        RemovalRule::DeletionCost | RemovalRule::Unspecified => "should go",
    };
    let title = format!(
        "{workload}: {} of {} {verb}",
        number(answer.removals.len() as i64),
        plural(answer.pod_count, "pod")
    );
    let mut parts = Parts::default();
    parts.lines(about_removals(workload, answer));
    parts.table(Table::new(
        "pod",
        ["POD", "NODE", "OUT OF"],
        answer.removals.iter().map(removal),
    ));
    changed_topologies(&mut parts, &answer.before, &answer.after);
    if let Some(line) = better(answer) {
        parts.apart(Look::Plain, line);
    }
    Page::new("scale-down", format!("Scaling down in {}", source.snapshot))
        .of(source, answer.revision, answer.defaults())
        .verdict(Look::Strong, title)
        .with(parts)
}

/// What is known of the removals, and how they are chosen.
fn about_removals(workload: &str, answer: &RankRemovalsResponse) -> Vec<String> {
    let mut lines = Vec::from_iter(found_by_selector(answer.selected_count));
    let is_chosen = answer.rule() != RemovalRule::HighestOrdinals;
    if is_chosen && answer.unknown_pod_count > 0 {
        let pods = plural(answer.unknown_pod_count, "pod");
        lines.push(format!(
            "not known of {pods}: readiness, deletion cost, restarts and age"
        ));
    }
    let revisions = answer.revisions.iter().map(|it| {
        let (gone, all) = (number(it.removal_count), number(it.pod_count));
        let hash = match &*it.hash {
            "" => "all other revisions",
            hash => hash,
        };
        format!("{gone} of {all} of {hash}")
    });
    let revisions: Vec<String> = revisions.collect();
    if !revisions.is_empty() {
        let split = joined(&revisions);
        lines.push(format!("in a rollout, by its revisions: {split}"));
    } else if !answer.optimal {
        lines.push(
            "others may leave the pods more evenly spread: three or more constraints cross".into(),
        );
    }
    let unknown = answer.rule() == RemovalRule::Unspecified;
    if let Some((kind, _)) = workload.split_once('/').filter(|_| unknown) {
        lines.push(format!(
            "how a {kind} chooses the pods that it removes is not known"
        ));
    }
    if !answer.fault.is_empty() {
        lines.push(format!("not judged by their constraints: {}", answer.fault));
    }
    lines
}

/// A line with the pods that would be better, if the controller cannot be told to remove them.
fn better(answer: &RankRemovalsResponse) -> Option<String> {
    let names = answer.better_removals.iter().map(|it| it.name.clone());
    let names: Vec<String> = names.collect();
    let skews = answer.better_after.iter().map(|after| {
        let skew = number(after.skew);
        format!("skew {skew} over {}", after.topology_key)
    });
    let skews: Vec<String> = skews.collect();
    (!names.is_empty()).then(|| {
        format!(
            "if they could be chosen, {} would be better: {}",
            among(&names),
            skews.join(", ")
        )
    })
}

fn removal(removal: &Removal) -> [String; 3] {
    let domains = removal.domains.iter().map(|domain| match &*domain.value {
        "" if domain.matching_pods == 0 => "no domain".to_owned(),
        value => format!("{} {}", quoted(value), number(domain.matching_pods)),
    });
    let node = match &*removal.node {
        "" => "none yet".to_owned(),
        node => node.to_owned(),
    };
    let domains: Vec<String> = domains.collect();
    [removal.name.clone(), node, domains.join(", ")]
}

/// Adds the counts of each domain of topologies, before and after.
fn changed_topologies(parts: &mut Parts, before: &[TopologySpread], after: &[TopologySpread]) {
    for (before, after) in before.iter().zip(after) {
        let left = after.domains.iter();
        let left: BTreeMap<&str, i64> = left.map(|d| (&*d.value, d.matching_pods)).collect();
        let rows = before.domains.iter().map(|domain| {
            let then = domain.matching_pods;
            let now = left.get(&*domain.value).copied().unwrap_or(0);
            (&*domain.value, bar_of(before, then), bar_of(after, now))
        });
        let mut below = Parts::default();
        below.table(changed_domains(rows));
        let skew = format!("skew {} -> {}", number(before.skew), number(after.skew));
        let heading = vec![
            (Look::Strong, format!("over {}", over(before))),
            (Look::Plain, ": ".to_owned()),
            (Look::of(after.excess == 0), skew),
        ];
        parts.push(PagePart::Section(heading, below));
    }
}

/// A row for each domain, with its bars before and after.
pub(super) fn changed_domains<'d>(domains: impl Iterator<Item = (&'d str, Bar, Bar)>) -> Table {
    let rows = domains.map(|(domain, before, after)| {
        [
            quoted(domain).into(),
            number(before.count).into(),
            number(after.count).into(),
            TableCell::Change(before, after),
        ]
    });
    Table::new("domain", ["DOMAIN", "BEFORE", "AFTER", "PODS"], rows)
}

/// The answer of Rebalance: a row for each move, and for each workload a bar for each domain, and the
/// blockers.
pub(crate) fn rebalance(source: &Source, answer: &RebalanceResponse) -> Page {
    let is_even = answer.workloads.iter().all(|it| it.blockers.is_empty());
    let mut parts = Parts::default();
    parts.lines(remarks(answer));
    parts.table(moves(&answer.moves));
    workloads(&mut parts, &answer.workloads);
    Page::new("rebalance", format!("Moves in {}", source.snapshot))
        .of(source, answer.revision, answer.defaults())
        .verdict(Look::of(is_even), headline(answer))
        .with(parts)
}

/// Returns a line with the numbers of moves and workloads.
fn headline(answer: &RebalanceResponse) -> String {
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
            plural(workloads, "workload")
        ),
        (_, moves) => format!(
            "{}: {} of {} even afterwards",
            plural(moves, "move"),
            number(even),
            plural(workloads, "workload")
        ),
    }
}

/// Returns remarks about the whole plan.
fn remarks(answer: &RebalanceResponse) -> Vec<String> {
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

/// A row for each move.
pub(super) fn moves(moves: &[PodMove]) -> Table {
    let rows = moves.iter().enumerate().map(|(at, it)| row(at, it));
    Table::new("move", ["MOVE", "POD", "FROM", "TO", "WHY"], rows)
}

fn row(at: usize, it: &PodMove) -> [String; 5] {
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
fn effect(it: &MoveEffect) -> String {
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

/// Adds what becomes of workloads.
pub(super) fn workloads(parts: &mut Parts, workloads: &[RebalancedWorkload]) {
    for it in workloads {
        let name = name_of_workload(&it.namespace, &it.kind, &it.name, &it.labels);
        let title = format!("{name}: {}", plural(it.move_count, "move"));
        let mut below = Parts::default();
        if !it.fault.is_empty() {
            below.line(format!("not judged by their constraints: {}", it.fault));
        }
        below.lines(found_by_selector(it.selected_count));
        below.lines(it.blockers.iter().map(blocker));
        let look = Look::of(it.blockers.is_empty());
        parts.push(PagePart::Section(vec![(look, title)], below));
        changed_topologies(parts, &it.before, &it.after);
    }
}

/// Returns a blocker, in words.
fn blocker(it: &MoveBlocker) -> String {
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
