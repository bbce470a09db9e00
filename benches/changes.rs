//! Changes that live views have to follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::snapshot::Batch;
use evenkeel::spread::NodeChecks;
use support::synth::{HOSTNAME_KEY, SyntheticCluster, ZONE_KEY};

use super::ask::{self, Compiled};
use super::cases::{self, CONSTRAINTS, Reach};
use super::clock::Clock;
use super::world::{World, batch};

/// Largest number of pods that are moved in one batch.
const MOVED_PODS: usize = 1_000;
/// The number of sets of eligible nodes that are live when a node is relabelled.
const ELIGIBILITY_SETS: usize = 100;
/// The number of selectors that are asked about on each of these sets.
const SELECTORS: usize = 10;

/// The cost of moving pods that three views count, in nanoseconds.
pub struct PodChange {
    /// The time for one pod in a batch of its own.
    pub alone_ns: f64,
    /// The time for one pod of `batch_pods` in a batch.
    pub batched_ns: f64,
    /// The number of pods that were in the batch.
    pub batch_pods: usize,
    /// The time for one pod in a batch of its own, while the revision before is held.
    pub held_ns: f64,
}

/// Moves pods of the measured workload to the next node and back.
pub fn move_pods(
    clock: &mut Clock,
    id: &str,
    world: &World,
    cluster: &SyntheticCluster,
) -> PodChange {
    ask::forget_views(world);
    let workload = cases::workload(cluster);
    // Three views are live: by zone alone, and by zone and hostname where both keys are required.
    for constraints in &CONSTRAINTS[..2] {
        let pod = cases::incoming(workload, *constraints, Reach::AllNodes);
        Compiled::of(world, &pod).filter_domains(NodeChecks::SpreadOnly);
    }
    let there: Vec<v1::Pod> = workload.pods().take(MOVED_PODS).collect();
    let names: Vec<String> = cluster.nodes().map(|node| name_of(&node)).collect();
    let moved = there.iter().cloned().map(|mut pod| {
        let spec = pod.spec.get_or_insert_default();
        let node = names
            .binary_search(&spec.node_name)
            .expect("it is on a node");
        spec.node_name = names[(node + 1) % names.len()].clone();
        pod
    });
    let moved: Vec<v1::Pod> = moved.collect();
    let of = |pods: &[v1::Pod]| batch(pods.iter().cloned().map(Object::Pod).map(change).collect());
    let mut between = |id: &str, count: usize, is_held: bool| {
        let batches = [of(&moved[..count]), of(&there[..count])];
        let ns = alternate(clock, id, world, &batches, is_held);
        ask::update(world, &batches[1]);
        ns / count as f64
    };
    PodChange {
        alone_ns: between(&format!("{id}/pod change alone"), 1, false),
        batched_ns: between(&format!("{id}/pod change batched"), there.len(), false),
        batch_pods: there.len(),
        held_ns: between(
            &format!("{id}/pod change while the revision before is held"),
            1,
            true,
        ),
    }
}

/// Moves a node to another zone and back, with 1,000 views on 100 sets of eligible nodes live.
/// Returns nanoseconds.
pub fn relabel_node(clock: &mut Clock, id: &str, world: &World, cluster: &SyntheticCluster) -> f64 {
    ask::forget_views(world);
    let shape = cluster.shape();
    for selector in 0..SELECTORS {
        let workload = cluster.workload(selector * shape.workloads / SELECTORS);
        for set in 0..ELIGIBILITY_SETS {
            let mut pod = cases::incoming(workload, CONSTRAINTS[0], Reach::AllNodes);
            pod.spec.get_or_insert_default().affinity = Some(anywhere_but(set));
            Compiled::of(world, &pod).filter_domains(NodeChecks::SpreadOnly);
        }
    }
    let there = cluster.node(shape.nodes / 2);
    let mut moved = there.clone();
    let labels = &mut moved.metadata.get_or_insert_default().labels;
    let zones: BTreeMap<_, _> = cluster.nodes().map(|node| (zone_of(&node), ())).collect();
    let other = zones.into_keys().find(|zone| *zone != labels[ZONE_KEY]);
    labels.insert(ZONE_KEY.to_owned(), other.expect("there are two zones"));
    let of = |node: v1::Node| batch(vec![change(Object::Node(node))]);
    let batches = [of(moved), of(there)];
    let ns = alternate(clock, &format!("{id}/node relabel"), world, &batches, false);
    ask::update(world, &batches[1]);
    ns
}

/// The median time to apply one of two batches that undo each other. With `is_held` a copy of each
/// revision is taken and held until the next one; the time includes that.
fn alternate(
    clock: &mut Clock,
    id: &str,
    world: &World,
    batches: &[Arc<Batch>; 2],
    is_held: bool,
) -> f64 {
    let snapshot = world.snapshot();
    let hold = || is_held.then(|| snapshot.with_whole(|_, whole| whole));
    let (mut turn, mut held) = (0, hold());
    let ns = clock.median_ns(id, || {
        ask::update(world, &batches[turn % 2]);
        held = hold();
        turn += 1;
    });
    drop(held);
    ns
}

/// Required affinity that all nodes match, different from that of any other
/// number.
fn anywhere_but(number: usize) -> v1::Affinity {
    let requirement = v1::NodeSelectorRequirement {
        key: HOSTNAME_KEY.to_owned(),
        operator: "NotIn".to_owned(),
        values: vec![format!("none-{number}")],
    };
    let term = v1::NodeSelectorTerm {
        match_expressions: vec![requirement],
        ..Default::default()
    };
    v1::Affinity {
        node_affinity: Some(v1::NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(v1::NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn change(object: Object) -> v1::Change {
    v1::Change {
        object: Some(object),
    }
}

fn name_of(node: &v1::Node) -> String {
    node.metadata.as_ref().map_or("", |m| &m.name).to_owned()
}

fn zone_of(node: &v1::Node) -> String {
    let metadata = node.metadata.as_ref().expect("it has metadata");
    metadata.labels[ZONE_KEY].clone()
}
