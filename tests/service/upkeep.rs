//! Questions about absent objects keep nothing, and pods on an unknown node do not pile up. Whether
//! memory comes back is asked of the allocator, in `measured/hostile/memory`.

use evenkeel::proto::v1::{Change, Pod};
use evenkeel::snapshot::Limits;
use evenkeel::spread::{Filter, NodeChecks};
use support::build::{HOSTNAME, ZONE, hard, node, on, pod, spread};
use support::in_process::InProcess;
use support::model::{Stored, delete};

const NODES: usize = 50;

/// The label that the pods of a job share.
const JOB: [(&str, &str); 1] = [("app", "job")];

/// A snapshot with 50 nodes in three zones.
fn three_zones() -> InProcess {
    let nodes = (0..NODES).map(|i| zoned(&format!("n{i}"), i % 3));
    InProcess::new(Limits::default(), nodes.collect())
}

/// Asks Filter. Returns the number of domains and the smallest count of each hard constraint.
fn ask(world: &InProcess, pod: &Pod, overlay: Vec<Change>) -> Vec<(usize, i64)> {
    let question = world.question(pod);
    let overlay = world.overlay(overlay);
    let read = world.snapshot.read(&question.namespace, overlay, |cut| {
        let constraints = question.constraints_on(&cut)?;
        let filter = Filter::of(&question, &constraints, NodeChecks::All, &cut)?;
        let reports = filter.reports(usize::MAX)?;
        let numbers = reports.iter().map(|r| (r.domain_count, r.global_minimum));
        Ok(numbers.collect())
    });
    read.expect("nobody gives it up")
}

fn zoned(name: &str, zone: usize) -> Change {
    node(name, &[(ZONE, &format!("z{zone}"))]).change()
}

/// A pod that spreads by zone and by host among the pods of the job.
fn asker() -> Pod {
    let constraints = vec![hard(1, ZONE, &JOB), hard(1, HOSTNAME, &JOB)];
    spread(pod("asker", &JOB), constraints)
}

#[test]
fn what_is_not_there_takes_no_room() {
    let world = three_zones();
    for index in 0..10 {
        let mut pod = asker();
        pod.metadata.get_or_insert_default().namespace = format!("nobody-{index}");
        assert_eq!(ask(&world, &pod, Vec::new()), [(3, 0), (NODES, 0)]);
        let imagined = node("n0", &[(ZONE, "z9")]).change();
        assert_eq!(ask(&world, &pod, vec![imagined]), [(4, 0), (NODES, 0)]);
    }
    assert_eq!(world.snapshot.summary().views, 0);
}

#[test]
fn pods_that_come_and_go_on_an_unknown_node_do_not_pile_up() {
    let world = three_zones();
    let come = || on(pod("p", &JOB), "unknown").change();
    world.update(vec![on(pod("stays", &JOB), "n0").change(), come()]);
    let slots = || world.snapshot.state().nodes().slot_count();
    let before = slots();
    for _ in 0..2_000 {
        world.update(vec![delete("Pod", "default", "p")]);
        world.update(vec![come()]);
    }
    assert!(slots() <= before + 1, "{before} slots grew to {}", slots());
}
