//! State that is kept up to date stays in bounds after a burst of label sets, names of nodes that
//! come and go, and questions about absent objects, and a change costs what it did before. Whether
//! the memory comes back is asked of the allocator, in `measured/hostile/memory`.

use std::time::Duration;

use evenkeel::proto::v1::{Change, Pod};
use evenkeel::snapshot::Limits;
use evenkeel::spread::{Filter, NodeChecks};
use rustix::time::{ClockId, clock_gettime};
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

/// A pod of the job with a label set of its own.
fn worker(index: usize) -> Change {
    let name = format!("w{index}");
    let labels = [JOB[0], ("statefulset.kubernetes.io/pod-name", &*name)];
    on(pod(&name, &labels), &format!("n{}", index % NODES)).change()
}

#[test]
fn a_label_set_for_each_pod_leaves_nothing_behind_and_costs_the_same_throughout() {
    const PODS: usize = 100_000;
    const BATCH: usize = 1_000;
    let world = three_zones();
    // One pod stays, so that the namespace stays.
    world.update(vec![on(pod("stays", &JOB), "n0").change()]);
    ask(&world, &asker(), Vec::new());
    let timed = |changes: &dyn Fn(usize) -> Change| -> Vec<Duration> {
        let batch = |first: usize| {
            let changes = (first..first + BATCH).map(changes).collect();
            // Of this thread alone: other tests run beside it.
            let start = cpu_time();
            world.update(changes);
            cpu_time() - start
        };
        (0..PODS).step_by(BATCH).map(batch).collect()
    };
    let adding = timed(&worker);
    let full = world.snapshot.summary();
    assert_eq!(full.sizes.label_sets, PODS + 1);
    assert_eq!(ask(&world, &asker(), Vec::new())[1], (NODES, 2_000));
    let deleting = timed(&|index| delete("Pod", "default", &format!("w{index}")));

    world.registry.sweep(100);
    let after = world.snapshot.summary();
    assert_eq!((after.sizes.label_sets, after.sizes.pods), (1, 1));
    assert_eq!(ask(&world, &asker(), Vec::new())[1], (NODES, 0));
    assert_eq!(world.verify(), 2);
    for (what, times) in [("adding", adding), ("deleting", deleting)] {
        let tenth = times.len() / 10;
        let (few, many) = match what {
            "adding" => (&times[..tenth], &times[9 * tenth..]),
            _ => (&times[9 * tenth..], &times[..tenth]),
        };
        let (few, many) = (median(few), median(many));
        assert!(
            many < few * 6,
            "{what}: {few:?} with few, {many:?} with many"
        );
    }
}

/// The CPU time that this thread has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("no time is negative")
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
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
fn names_of_nodes_that_come_and_go_do_not_pile_up() {
    let world = three_zones();
    world.update(vec![on(pod("stays", &JOB), "n0").change()]);
    for round in 0..400 {
        let names = (0..20).map(|i| format!("round{round}-{i}"));
        world.update(names.clone().map(|name| zoned(&name, 0)).collect());
        assert_eq!(ask(&world, &asker(), Vec::new()), [(3, 0), (NODES + 20, 0)]);
        world.update(names.map(|name| delete("Node", "", &name)).collect());
        assert_eq!(ask(&world, &asker(), Vec::new()), [(3, 0), (NODES, 0)]);
        if round % 50 == 0 {
            world.verify();
        }
        // Views of partitions that no longer exist go once they are idle.
        world.registry.sweep(2);
        let slots = world.snapshot.state().nodes().slot_count();
        assert!(slots <= NODES + 40, "{slots} slots in round {round}");
    }
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

#[test]
fn views_made_for_few_domains_do_not_stay_for_many() {
    let world = three_zones();
    world.update(vec![on(pod("stays", &JOB), "n0").change()]);
    for first in (0..500).step_by(10) {
        ask(&world, &asker(), Vec::new());
        assert_eq!(world.verify(), 2, "both are kept with {first} more nodes");
        let nodes = (first..first + 10).map(|i| zoned(&format!("m{i}"), i % 3));
        world.update(nodes.collect());
    }
    // The view by host is counted again whenever hosts come. With many it keeps its counts in
    // order, which takes room.
    let state = world.snapshot.state();
    let copies = state
        .namespace("default")
        .expect("it has pods")
        .view_copies();
    let ordered = copies.iter().filter(|copy| copy.view.levels().is_some());
    assert_eq!(ordered.count(), 1, "the view by host");
}
