//! Decisions that take long delay nobody: a snapshot may change while a decision is made, and the
//! decision is of one revision all the same. A decision that turns out to be large is not made
//! where it arrived, and one that nobody waits for ends.

use std::cell::Cell;

use evenkeel::proto::v1::{Change, NodeSelectorTerm, Pod};
use evenkeel::snapshot::{Batch, Limits, ReadView, Stopped};
use evenkeel::spread::{Filter, NodeChecks, Question};
use support::build::{
    HOSTNAME, ZONE, hard, node, node_requirement, on, pod, requiring_terms, spread,
};
use support::in_process::InProcess;
use support::model::Stored;

const APP: [(&str, &str); 1] = [("app", "web")];

/// A snapshot of this many nodes in three zones, each with a pod that has a label set of its own.
fn filled(nodes: usize) -> InProcess {
    let changes = (0..nodes).flat_map(|i| [zoned(i, i % 3), worker(i, i)]);
    InProcess::new(Limits::default(), changes.collect())
}

/// The number of feasible nodes, and for each hard constraint the number of domains and the
/// minimum.
type Numbers = (usize, Vec<(usize, i64)>);

fn numbers(question: &Question, cut: &ReadView<'_>) -> Result<Numbers, Stopped> {
    let constraints = question.constraints_on(cut)?;
    let filter = Filter::of(question, &constraints, NodeChecks::All, cut)?;
    let reports = filter.reports(usize::MAX)?;
    let reports = reports.iter().map(|r| (r.domain_count, r.global_minimum));
    let judged = filter.judge_all(cut.nodes.order())?;
    Ok((judged.tallies.feasible, reports.collect()))
}

fn zoned(index: usize, zone: usize) -> Change {
    let name = format!("n{index}");
    let labels = [(ZONE, &*format!("z{zone}")), (HOSTNAME, &*name)];
    node(&name, &labels).change()
}

fn worker(index: usize, on_node: usize) -> Change {
    let labels = [APP[0], ("ordinal", &*index.to_string())];
    on(pod(&format!("w{index}"), &labels), &format!("n{on_node}")).change()
}

fn asker() -> Pod {
    let constraints = vec![hard(1, ZONE, &APP), hard(1, HOSTNAME, &APP)];
    spread(pod("asker", &APP), constraints)
}

/// A pod with this many terms, none of which matches.
fn costly(terms: usize) -> Pod {
    let term = |i: usize| NodeSelectorTerm {
        match_expressions: vec![
            node_requirement(HOSTNAME, "Exists", &[]),
            node_requirement(ZONE, "NotIn", &["z0", "z1", "z2", &format!("x{i}")]),
        ],
        ..Default::default()
    };
    requiring_terms(asker(), (0..terms).map(term).collect())
}

#[test]
fn what_turns_out_to_be_large_is_not_decided_at_once() {
    let world = filled(1_000);
    for (terms, is_small) in [(1, true), (1_000, false)] {
        let question = world.question(&costly(terms));
        let at_once = |cut: ReadView<'_>| numbers(&question, &cut);
        let answered = world.snapshot.state().decide_at_once("default", at_once);
        match is_small {
            true => assert_eq!(answered.map(|(feasible, _)| feasible), Ok(0)),
            false => assert_eq!(answered, Err(Stopped::Large)),
        }
    }
}

#[test]
fn what_nobody_waits_for_ends_soon() {
    let world = filled(1_000);
    let question = world.question(&costly(1_000));
    let looks = Cell::new(0);
    let is_given_up = || {
        looks.set(looks.get() + 1);
        looks.get() >= 3
    };
    let read = world
        .snapshot
        .read_until("default".into(), Batch::default(), &is_given_up, |cut| {
            numbers(&question, &cut)
        });
    assert_eq!(read, Err(Stopped::GivenUp));
    assert_eq!(looks.get(), 3, "it went on after it was given up");
    // Nothing of the decision was kept.
    assert_eq!(world.verify(), 0);
}
