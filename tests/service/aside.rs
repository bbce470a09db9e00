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
use support::model::{Stored, delete};

const APP: [(&str, &str); 1] = [("app", "web")];

/// A snapshot of this many nodes in three zones, each with a pod that has a label set of its own.
fn filled(nodes: usize) -> InProcess {
    let changes = (0..nodes).flat_map(|i| [zoned(i, i % 3), worker(i, i)]);
    InProcess::new(Limits::default(), changes.collect())
}

/// Asks, however long the answer takes.
fn ask(world: &InProcess, question: &Question, overlay: Vec<Change>) -> Numbers {
    let look = |cut: ReadView<'_>| numbers(question, &cut);
    let read = world.snapshot.read("default", world.overlay(overlay), look);
    read.expect("nobody gives it up")
}

/// The number of feasible nodes, and for each hard constraint the number of domains and the
/// minimum.
type Numbers = (usize, Vec<(usize, i64)>);

fn numbers(question: &Question, cut: &ReadView<'_>) -> Result<Numbers, Stopped> {
    let constraints = question.constraints_on(cut)?;
    let filter = Filter::of(question, &constraints, NodeChecks::All, cut)?;
    let reports = filter.reports(usize::MAX)?;
    let reports = reports.iter().map(|r| (r.domain_count, r.global_minimum));
    Ok((filter.tally_all()?.feasible, reports.collect()))
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

/// Returns the changes while a decision is made: pods that come, move and go, and nodes likewise.
fn changes(nodes: bool) -> Vec<Change> {
    let mut changes = vec![worker(0, 1), worker(100, 3), worker(101, 4)];
    changes.push(delete("Pod", "default", "w5"));
    if nodes {
        changes.extend([zoned(2, 0), zoned(60, 1), delete("Node", "", "n7")]);
        changes.push(worker(102, 60));
    }
    changes
}

#[test]
fn what_changes_meanwhile_is_not_seen_and_not_held_up() {
    for (with_nodes, counts_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let world = filled(30);
        let question = world.question(&asker());
        let expected = ask(&filled(30), &question, Vec::new());
        let overlay = changes(true);
        let imagined = ask(&filled(30), &question, overlay.clone());
        assert_ne!(expected, imagined);

        let decided = world.snapshot.read("default", Batch::default(), |cut| {
            if counts_first {
                assert_eq!(numbers(&question, &cut)?, expected);
            }
            // A call that waited for this decision would never end.
            assert_eq!(ask(&world, &question, overlay.clone()), imagined);
            world.update(changes(with_nodes));
            numbers(&question, &cut)
        });
        assert_eq!(decided, Ok(expected), "{with_nodes} {counts_first}");
        world.verify();

        // The next decision is of the next revision, from kept views or new ones.
        let fresh = filled(30);
        fresh.update(changes(with_nodes));
        let after = ask(&fresh, &question, Vec::new());
        let at_once = |cut: ReadView<'_>| numbers(&question, &cut);
        let next = world.snapshot.state().decide_at_once("default", at_once);
        assert_eq!(next, Ok(after), "{with_nodes} {counts_first}");
        assert!(world.verify() >= 2, "views are kept");
    }
}

#[test]
fn an_overlay_holds_up_nobody_and_sees_nothing_of_others() {
    let world = filled(30);
    let question = world.question(&asker());
    let imagined = ask(&world, &question, changes(true));
    let overlay = world.overlay(changes(true));
    let decided = world.snapshot.read("default", overlay, |cut| {
        world.update(vec![zoned(3, 2), worker(200, 3)]);
        numbers(&question, &cut)
    });
    assert_eq!(decided, Ok(imagined));
    world.verify();
}

/// Pods may name a node that does not exist yet. An overlay that deletes, moves or adds such pods
/// does not change whether the name is in use.
#[test]
fn overlays_leave_names_of_nodes_in_use() {
    let app = |name: &str| pod(name, &APP);
    let supposed = [
        ("nothing", Vec::new()),
        ("the pod goes", vec![delete("Pod", "default", "early")]),
        ("the pod moves", vec![on(app("early"), "n0").change()]),
        ("another comes", vec![on(app("other"), "n60").change()]),
    ];
    for (what, overlay) in supposed {
        let world = filled(3);
        world.update(vec![on(app("early"), "n60").change()]);
        let question = world.question(&asker());
        ask(&world, &question, overlay);
        // Each change of nodes frees the names that are no longer in use.
        world.update(vec![zoned(61, 1)]);
        world.update(vec![zoned(60, 0)]);
        world.verify();
        let fresh = filled(3);
        let all = vec![zoned(60, 0), zoned(61, 1), on(app("early"), "n60").change()];
        fresh.update(all);
        let held = |world: &InProcess| world.snapshot.state().changes().collect::<Vec<_>>();
        assert_eq!(held(&world), held(&fresh), "{what}");
    }
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
