//! The cost of affinity between pods for a decision, in process, with and without terms of running
//! pods.
//!
//! ```text
//! cargo bench --bench affinity                    up to 15,000 nodes
//! cargo bench --bench affinity -- 5000            5,000 nodes
//! cargo bench --bench affinity -- namespaces      terms over 50,000 namespaces, 1,000 nodes
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
    if std::env::args().any(|arg| arg == "namespaces") {
        return beside_namespaces();
    }
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
            let constraints = question.constraints_on(&read_view)?;
            let filter = Filter::of(&question, &constraints, NodeChecks::All, &read_view)?;
            let judged = filter.judge_all(read_view.nodes.order())?;
            Ok(judged.tallies.feasible)
        };
        let read = || snapshot.read(&namespace, Batch::default(), decide);
        let run = || read().expect("nobody gives it up");
        let feasible = run();
        let ns = clock.median_ns(name, run);
        println!(
            "{:<7} {running:<25} {name:<28} {:>9.2} µs  ({feasible} feasible)",
            size.0,
            ns / 1e3
        );
    }
}

/// Measures ten terms of anti-affinity by hostname over all namespaces but those of a team, asked
/// again and again, and the memory that this takes.
fn beside_namespaces() {
    const NAMESPACES: usize = 50_000;
    const NODES: usize = 1_000;
    let labels = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
    let meta = |name: String, namespace: String, labels| {
        Some(v1::ObjectMeta {
            name,
            namespace,
            labels,
            ..Default::default()
        })
    };
    let node = |number| format!("node-{number:04}");
    let nodes = (0..NODES).map(|number| {
        let metadata = meta(node(number), String::new(), labels(HOST, node(number)));
        Object::Node(v1::Node {
            metadata,
            ..Default::default()
        })
    });
    let namespaces = (0..NAMESPACES).flat_map(|number| {
        let name = format!("ns-{number:05}");
        let team = labels("team", format!("team-{}", number % 20));
        let namespace = v1::Namespace {
            metadata: meta(name.clone(), String::new(), team),
        };
        let app = labels("app", format!("app-{}", number / 20 % 100));
        let spec = v1::PodSpec {
            node_name: node(number % NODES),
            ..Default::default()
        };
        let pod = v1::Pod {
            metadata: meta("pod".to_owned(), name, app),
            spec: Some(spec),
            ..Default::default()
        };
        [Object::Namespace(namespace), Object::Pod(pod)]
    });
    let change = |object| v1::Change {
        object: Some(object),
    };
    let changes: Vec<_> = nodes.chain(namespaces).map(change).collect();
    let world = World::of(changes.chunks(10_000).map(<[v1::Change]>::to_vec));
    drop(changes);
    let mut pod = pod("ns-00000", BTreeMap::new());
    let terms = (0..10).map(|number| {
        let outside = v1::LabelSelectorRequirement {
            key: "team".to_owned(),
            operator: "NotIn".to_owned(),
            values: vec![format!("team-{number}")],
        };
        let selector = v1::LabelSelector {
            match_expressions: vec![outside],
            ..Default::default()
        };
        let rules = rules(&labels("app", format!("app-{number}")), HOST);
        let terms = rules.required_during_scheduling_ignored_during_execution;
        let mut term = terms.into_iter().next().expect("it has a term");
        term.namespace_selector = Some(selector);
        term
    });
    let affinity = &mut pod.spec.get_or_insert_default().affinity;
    affinity.get_or_insert_default().pod_anti_affinity = Some(v1::PodAffinity {
        required_during_scheduling_ignored_during_execution: terms.collect(),
        ..Default::default()
    });
    let question = Question::compile(Some(&pod), &Limits::default(), Path::root("pod"));
    let question = question.expect("it is valid");
    let snapshot = world.snapshot();
    for _ in 0..5 {
        let (begun, before) = (cpu::thread_time(), resident_peak());
        let decide = |read_view: ReadView<'_>| {
            let constraints = question.constraints_on(&read_view)?;
            let filter = Filter::of(&question, &constraints, NodeChecks::All, &read_view)?;
            let judged = filter.judge_all(read_view.nodes.order())?;
            Ok(judged.tallies.feasible)
        };
        let read = snapshot.read(&question.namespace, Batch::default(), decide);
        let feasible = read.expect("nobody gives it up");
        let took = cpu::thread_time() - begun;
        println!(
            "10 terms over {NAMESPACES} namespaces: {:.0} ms of CPU, {} MiB more ({feasible} feasible)",
            took.as_secs_f64() * 1e3,
            (resident_peak() - before) >> 20,
        );
    }
}

/// The most memory that the process has held, in bytes.
fn resident_peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    peak.expect("a peak") << 10
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
