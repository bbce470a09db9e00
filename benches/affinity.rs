//! The cost of affinity between pods for a decision, in process, with and without terms of running
//! pods.
//!
//! ```text
//! cargo bench --bench affinity                    up to 15,000 nodes
//! cargo bench --bench affinity -- 5000            5,000 nodes
//! ```

#[allow(dead_code, reason = "shared with other benches")]
mod clock;
#[allow(dead_code, reason = "shared with other benches")]
mod clusters;
mod cpu;
mod world;

use std::collections::BTreeMap;

use evenkeel::matching::Path;
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::snapshot::{Batch, Limits, ReadView};
use evenkeel::spread::{Filter, NodeChecks, Question};

use clock::Clock;
use clusters::SIZES;
use world::World;

const ZONES: usize = 10;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
/// The largest size that is measured.
const LARGEST: usize = 15_000;

fn main() {
    // cargo adds flags of its own.
    let sizes: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let wanted = |nodes: usize| match sizes.is_empty() {
        true => nodes <= LARGEST,
        false => sizes.contains(&nodes),
    };
    let mut clock = Clock::default();
    println!("nodes   pods that run             incoming pod                 Filter, all nodes");
    for size in SIZES.into_iter().filter(|(nodes, ..)| wanted(*nodes)) {
        let kinds = [
            ("no terms", None),
            ("each apart by hostname", Some(HOST)),
            ("each apart by zone", Some(ZONE)),
        ];
        for (running, key) in kinds {
            measure(size, (running, key), &mut clock);
        }
    }
}

/// Measures questions about a workload of a cluster in which each pod, if `key` is given, has a
/// term of anti-affinity to its own workload by that key.
fn measure(size: (usize, usize, usize), (running, key): (&str, Option<&str>), clock: &mut Clock) {
    let cluster = clusters::cluster(size, ZONES);
    let workload = cluster.workload(size.2 / 2);
    let (namespace, app) = (workload.namespace(), workload.name());
    let batches = cluster.into_batches(10_000);
    let world = World::of(batches.map(|mut changes| {
        for change in &mut changes {
            if let (Some(Object::Pod(pod)), Some(key)) = (&mut change.object, key) {
                keep_apart(pod, key);
            }
        }
        changes
    }));
    let app = || labels(&app);
    let cases = [
        ("no terms, no labels", pod(&namespace, BTreeMap::new())),
        ("no terms", pod(&namespace, app())),
        ("near its own, by zone", near(pod(&namespace, app()), ZONE)),
        (
            "apart from its own, by zone",
            apart(pod(&namespace, app()), ZONE),
        ),
        (
            "apart from its own, by host",
            apart(pod(&namespace, app()), HOST),
        ),
    ];
    for (name, pod) in cases {
        let question = Question::compile(Some(&pod), &Limits::default(), Path::root("pod"));
        let question = question.expect("it is valid");
        let snapshot = world.snapshot();
        let decide = |read_view: ReadView<'_>| {
            let constraints = question.constraints_on(&read_view);
            let filter = Filter::of(&question, &constraints, NodeChecks::All, &read_view);
            filter.judge_all(read_view.nodes.order()).tallies.feasible
        };
        let run = || snapshot.read(&namespace, Batch::default(), decide);
        let feasible = run();
        let ns = clock.median_ns(name, run);
        println!(
            "{:<7} {running:<25} {name:<28} {:>9.2} µs  ({feasible} feasible)",
            size.0,
            ns / 1e3
        );
    }
}

/// A required term about pods with these labels.
fn rules(labels: &BTreeMap<String, String>, key: &str) -> v1::PodAffinity {
    v1::PodAffinity {
        required_during_scheduling_ignored_during_execution: vec![v1::PodAffinityTerm {
            topology_key: key.to_owned(),
            label_selector: Some(v1::LabelSelector {
                match_labels: labels.clone(),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn keep_apart(pod: &mut v1::Pod, key: &str) {
    let labels = pod.metadata.as_ref().map(|metadata| &metadata.labels);
    let app = labels.and_then(|labels| labels.get_key_value("app"));
    let own = app.map(|(key, value)| (key.clone(), value.clone()));
    let rules = rules(&own.into_iter().collect(), key);
    let affinity = &mut pod.spec.get_or_insert_default().affinity;
    affinity.get_or_insert_default().pod_anti_affinity = Some(rules);
}

fn apart(mut pod: v1::Pod, key: &str) -> v1::Pod {
    keep_apart(&mut pod, key);
    pod
}

fn near(mut pod: v1::Pod, key: &str) -> v1::Pod {
    let labels = pod.metadata.as_ref().map(|it| it.labels.clone());
    let rules = rules(&labels.unwrap_or_default(), key);
    let affinity = &mut pod.spec.get_or_insert_default().affinity;
    affinity.get_or_insert_default().pod_affinity = Some(rules);
    pod
}

fn pod(namespace: &str, labels: BTreeMap<String, String>) -> v1::Pod {
    v1::Pod {
        metadata: Some(v1::ObjectMeta {
            namespace: namespace.to_owned(),
            labels,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn labels(app: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), app.to_owned())])
}
