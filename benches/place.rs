//! The cost of placing many replicas at once, in process: of gathering from the snapshot, and of
//! picking.
//!
//! ```text
//! cargo bench --bench place                       all sizes
//! cargo bench --bench place -- 5000               5,000 nodes
//! cargo bench --bench place -- volumes            only claims beside volumes
//! ```

#[allow(dead_code, reason = "shared with other benches")]
mod clock;
#[allow(dead_code, reason = "shared with other benches")]
mod clusters;
mod cpu;
mod local;
mod world;

use std::collections::BTreeMap;

use evenkeel::matching::Path;
use evenkeel::plan;
use evenkeel::proto::v1;
use evenkeel::snapshot::{Batch, Deadline, Limits, ReadView};
use evenkeel::spread::place::Placer;
use evenkeel::spread::{Filter, NodeChecks, Outcome, Picker, PlaceOptions, Question, fleet};

use clock::Clock;
use clusters::SIZES;
use world::World;

const ZONES: usize = 10;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const RACK: &str = "example.com/rack";
const REPLICAS: [usize; 4] = [10, 100, 1_000, 10_000];
/// From this size on only the largest number of replicas is measured.
const HUGE: usize = 100_000;
/// The number of nodes with room for one to four replicas each, and of replicas: more than fit
/// under the constraints.
const ROOMS: (usize, usize) = (5_000, 10_000);
/// Fleets: the number of clusters, and of those that are picked.
const FLEETS: [(usize, usize); 3] = [(100, 50), (1_000, 500), (10_000, 5_000)];

fn main() {
    // cargo adds flags of its own.
    let sizes: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let wanted = |nodes: usize| sizes.is_empty() || sizes.contains(&nodes);
    let mut clock = Clock::default();
    volumes(&mut clock);
    if std::env::args().any(|arg| arg == "volumes") {
        return;
    }
    println!("nodes   placed    constraints                      gather and pick");
    for size in SIZES.into_iter().filter(|(nodes, ..)| wanted(*nodes)) {
        kubernetes(size, &mut clock);
    }
    if wanted(ROOMS.0) {
        rooms(&mut clock);
    }
    for (clusters, picks) in FLEETS.into_iter().filter(|(clusters, _)| wanted(*clusters)) {
        pick_clusters(clusters, picks, &mut clock);
    }
}

/// The number of nodes and of volumes beside which claims are bound.
const VOLUMES: (usize, usize) = (5_000, 20_000);

/// Measures Filter for pods with claims, beside local volumes and beside volumes that all nodes reach.
fn volumes(clock: &mut Clock) {
    let (nodes, volumes) = VOLUMES;
    println!("nodes   claims beside 20,000 volumes                     Filter");
    let cases = [
        ("one claim, local volumes", true, 1, 0),
        ("5 claims, local volumes", true, 5, 0),
        ("one claim, volumes anywhere", false, 1, 0),
        ("one claim with 200 terms", false, 1, 200),
        ("1,000 claims, volumes anywhere", false, 1_000, 0),
    ];
    for (name, is_local, claims, terms) in cases {
        let node = (0..nodes).map(local::node);
        let volume = (0..volumes).map(|i| local::volume(i, nodes, is_local));
        let claim = (0..claims).map(|i| local::claim(i, terms));
        let all = node.chain(volume).chain(claim).chain([local::class()]);
        let changes: Vec<v1::Change> = all
            .map(|object| v1::Change {
                object: Some(object),
            })
            .collect();
        let world = World::of(changes.chunks(10_000).map(<[_]>::to_vec));
        let pod = local::pod(claims);
        let question = Question::compile(Some(&pod), &Limits::default(), Path::root("pod"));
        let question = question.expect("it is valid");
        let decide = |read_view: ReadView<'_>| {
            let constraints = question.constraints_on(&read_view)?;
            let filter = Filter::of(&question, &constraints, NodeChecks::All, &read_view)?;
            let judged = filter.judge_all(read_view.nodes.order())?;
            Ok(judged.tallies.feasible)
        };
        let snapshot = world.snapshot();
        let read = || snapshot.read("default", Batch::default(), decide);
        let run = || read().expect("nobody gives it up");
        let feasible = run();
        row(nodes, feasible, name, clock.median_ns(name, run));
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
            let options = PlaceOptions {
                replicas,
                ..PlaceOptions::default()
            };
            both(
                size.0,
                name,
                (&world, &namespace),
                (&question, options),
                clock,
            );
        }
    }
}

/// Picks, however long that takes.
fn picked(mut picker: impl Picker, jointly: bool) -> Outcome {
    let outcome = plan::pick(&mut picker, jointly, false, &Deadline::lasting(&|| false));
    outcome.expect("nobody gives it up")
}

/// Measures placement of pods one by one, and jointly.
fn both(
    nodes: usize,
    name: &str,
    (world, namespace): (&World, &str),
    (question, options): (&Question, PlaceOptions),
    clock: &mut Clock,
) {
    let snapshot = world.snapshot();
    let place = |options: &PlaceOptions| {
        let place = |read_view: ReadView<'_>| {
            let constraints = question.constraints_on(&read_view)?;
            let checks = NodeChecks::All;
            let placer = Placer::of(question, &constraints, checks, options, &read_view)?;
            Ok(picked(placer, options.jointly))
        };
        let outcome = snapshot.read(namespace, Batch::default(), place);
        outcome.expect("nobody gives it up")
    };
    let placed = place(&options).picks.len();
    row(
        nodes,
        placed,
        name,
        clock.median_ns(name, || place(&options)),
    );
    let options = PlaceOptions {
        jointly: true,
        ..options
    };
    let outcome = place(&options);
    let bound = outcome.bound.expect("it is asked for");
    let name = format!("{name}, jointly, of {bound}");
    let ns = clock.median_ns(&name, || place(&options));
    row(nodes, outcome.picks.len(), &name, ns);
}

/// Measures placement on nodes that differ in their room, so that replicas are left over and a plan
/// is made.
fn rooms(clock: &mut Clock) {
    let (nodes, replicas) = ROOMS;
    let name = |i: usize| format!("node-{i}");
    let node = |i: usize| {
        let labels = [
            (ZONE, (i % ZONES).to_string()),
            // Racks cross zones.
            (RACK, (i / 7 % 40).to_string()),
            (HOST, name(i)),
        ];
        let metadata = v1::ObjectMeta {
            name: name(i),
            labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
            ..Default::default()
        };
        v1::Change {
            object: Some(v1::change::Object::Node(v1::Node {
                metadata: Some(metadata),
                ..Default::default()
            })),
        }
    };
    let world = World::of(std::iter::once((0..nodes).map(node).collect()));
    let options = PlaceOptions {
        replicas,
        capacities: (0..nodes)
            .map(|i| (name(i), 1 + (i * 7_919 % 11 % 4) as u32))
            .collect(),
        ..PlaceOptions::default()
    };
    for (name, keys) in [
        ("rooms differ, zone + hostname hard", &[ZONE, HOST][..]),
        ("rooms differ, zone + rack hard", &[ZONE, RACK]),
        ("rooms differ, rack + hostname hard", &[RACK, HOST]),
        ("rooms differ, zone + rack + hostname", &[ZONE, RACK, HOST]),
        ("rooms differ, skews 1, 2, 4", &[ZONE, RACK, HOST]),
    ] {
        let constraints = keys.iter().enumerate().map(|(at, key)| {
            let max_skew = if name.ends_with("1, 2, 4") {
                1 << at
            } else {
                1
            };
            constraint("web", key, true, max_skew)
        });
        let constraints = constraints.collect();
        let pod = pod("default", "web", constraints);
        let question = Question::compile(Some(&pod), &Limits::default(), Path::root("pod"));
        let question = question.expect("it is valid");
        let asked = (&question, options.clone());
        both(nodes, name, (&world, "default"), asked, clock);
    }
}

fn constraint(app: &str, key: &str, hard: bool, max_skew: i32) -> v1::TopologySpreadConstraint {
    let when_unsatisfiable = if hard {
        "DoNotSchedule"
    } else {
        "ScheduleAnyway"
    };
    v1::TopologySpreadConstraint {
        max_skew,
        topology_key: key.to_owned(),
        when_unsatisfiable: when_unsatisfiable.to_owned(),
        label_selector: Some(v1::LabelSelector {
            match_labels: labels(app),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn cases(app: &str) -> [(&'static str, Vec<v1::TopologySpreadConstraint>); 4] {
    let constraint = |key: &str, hard, max_skew| constraint(app, key, hard, max_skew);
    let (zone, host) = (ZONE, HOST);
    [
        ("zone hard", vec![constraint(zone, true, 1)]),
        (
            "zone hard, hostname soft",
            vec![constraint(zone, true, 1), constraint(host, false, 1)],
        ),
        (
            "zone + hostname hard",
            vec![constraint(zone, true, 1), constraint(host, true, 1)],
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
        let options = PlaceOptions {
            replicas: picks,
            ..PlaceOptions::default()
        };
        let snapshot = world.snapshot();
        let pick = |read_view: ReadView<'_>| {
            let picker = fleet::PickN::of(&question, NodeChecks::All, &options, &read_view);
            Ok(picked(picker?, false))
        };
        let ns = clock.median_ns(name, || {
            let outcome = snapshot.read("default", Batch::default(), pick);
            outcome.expect("nobody gives it up")
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
