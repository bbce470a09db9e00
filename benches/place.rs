//! What placing many at once costs, in process: gathering from the snapshot,
//! and picking.
//!
//! ```text
//! cargo bench --bench place                       all sizes
//! cargo bench --bench place -- 5000               5,000 nodes
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
use evenkeel::snapshot::{Batch, Limits, ReadView};
use evenkeel::spread::{NodeChecks, Picker, Question, Wish, fleet, place};

use clock::Clock;
use clusters::SIZES;
use world::World;

const ZONES: usize = 10;
const REPLICAS: [usize; 4] = [10, 100, 1_000, 10_000];
/// From this size on only the largest number of replicas is measured.
const HUGE: usize = 100_000;
/// Fleets: clusters, and how many of them are picked.
const FLEETS: [(usize, usize); 3] = [(100, 50), (1_000, 500), (10_000, 5_000)];

fn main() {
    // cargo adds flags of its own.
    let sizes: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let wanted = |nodes: usize| sizes.is_empty() || sizes.contains(&nodes);
    let mut clock = Clock::default();
    println!("nodes   placed    constraints                      gather and pick");
    for size in SIZES.into_iter().filter(|(nodes, ..)| wanted(*nodes)) {
        kubernetes(size, &mut clock);
    }
    for (clusters, picks) in FLEETS.into_iter().filter(|(clusters, _)| wanted(*clusters)) {
        pick_clusters(clusters, picks, &mut clock);
    }
}

fn kubernetes(size: (usize, usize, usize), clock: &mut Clock) {
    let cluster = clusters::cluster(size, ZONES);
    let workload = cluster.workload(0);
    let (namespace, app) = (workload.namespace(), workload.name());
    let world = World::of(cluster.into_batches(10_000));
    for replicas in REPLICAS {
        if size.0 >= HUGE && replicas != REPLICAS[3] {
            continue;
        }
        for (name, constraints) in cases(&app) {
            let pod = pod(&namespace, &app, constraints);
            let path = Path::root("pod");
            let question = Question::compile(Some(&pod), &Limits::default(), path);
            let question = question.expect("it is valid");
            let wish = Wish {
                replicas,
                ..Wish::default()
            };
            let snapshot = world.snapshot();
            let plan = |read_view: ReadView<'_>| {
                place::Placer::of(&question, NodeChecks::All, &wish, &read_view)
            };
            let run = || {
                let mut plan = snapshot.read(&namespace, Batch::default(), plan);
                plan.run(false, &|| false).expect("nobody cancels")
            };
            let placed = run().picks.len();
            let ns = clock.median_ns(name, run);
            row(size.0, placed, name, ns);
        }
    }
}

fn cases(app: &str) -> [(&'static str, Vec<v1::TopologySpreadConstraint>); 3] {
    let constraint = |key: &str, hard: bool, max_skew| v1::TopologySpreadConstraint {
        max_skew,
        topology_key: key.to_owned(),
        when_unsatisfiable: if hard {
            "DoNotSchedule"
        } else {
            "ScheduleAnyway"
        }
        .to_owned(),
        label_selector: Some(v1::LabelSelector {
            match_labels: labels(app),
            ..Default::default()
        }),
        ..Default::default()
    };
    let (zone, host) = ("topology.kubernetes.io/zone", "kubernetes.io/hostname");
    [
        ("zone hard", vec![constraint(zone, true, 1)]),
        (
            "zone hard, hostname soft",
            vec![constraint(zone, true, 1), constraint(host, false, 1)],
        ),
        (
            "zone + hostname, hard and soft",
            vec![
                constraint(zone, true, 1),
                // Zones do not have equally many usable nodes.
                constraint(host, true, 10),
                constraint(zone, false, 1),
                constraint(host, false, 1),
            ],
        ),
    ]
}

fn pick_clusters(clusters: usize, picks: usize, clock: &mut Clock) {
    let node = |i: usize| {
        let pairs = [("region", i % 12), ("provider", i % 7)];
        let labels = pairs.map(|(key, value)| (key.to_owned(), value.to_string()));
        let metadata = v1::ObjectMeta {
            name: format!("cluster-{i}"),
            labels: BTreeMap::from(labels),
            ..Default::default()
        };
        v1::Change {
            object: Some(v1::change::Object::Node(v1::Node {
                metadata: Some(metadata),
                ..Default::default()
            })),
        }
    };
    let world = World::of(std::iter::once((0..clusters).map(node).collect()));
    for (name, keys) in [
        ("fleet, region hard", &["region"][..]),
        ("fleet, region + provider hard", &["region", "provider"]),
    ] {
        let constraint = |key: &&str| v1::TopologySpreadConstraint {
            topology_key: (*key).to_owned(),
            max_skew: 2,
            ..Default::default()
        };
        let pod = pod("default", "crp", keys.iter().map(constraint).collect());
        let question =
            fleet::PlacementSpec::compile(Some(pod), &Limits::default(), Path::root("pod"));
        let question = question.expect("it is valid");
        let wish = Wish {
            replicas: picks,
            ..Wish::default()
        };
        let snapshot = world.snapshot();
        let plan = |read_view: ReadView<'_>| {
            fleet::PickN::of(&question, NodeChecks::All, &wish, &read_view)
        };
        let ns = clock.median_ns(name, || {
            let mut plan = snapshot.read("default", Batch::default(), plan);
            plan.run(false, &|| false).expect("nobody cancels")
        });
        row(clusters, picks, name, ns);
    }
}

fn pod(namespace: &str, app: &str, constraints: Vec<v1::TopologySpreadConstraint>) -> v1::Pod {
    v1::Pod {
        metadata: Some(v1::ObjectMeta {
            namespace: namespace.to_owned(),
            labels: labels(app),
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            topology_spread_constraints: constraints,
            ..Default::default()
        }),
        status: None,
    }
}

fn labels(app: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), app.to_owned())])
}

fn row(nodes: usize, replicas: usize, constraints: &str, ns: f64) {
    println!(
        "{nodes:<7} {replicas:<9} {constraints:<32} {:>9.2} ms",
        ns / 1e6
    );
}
