//! The cost of a plan of moves, in process, and its effect on decisions beside it: 5,000 nodes with
//! 150,000 pods of 1,000 workloads, of which 50 violate their constraint.
//!
//! ```text
//! cargo bench --bench rebalance
//! cargo bench --bench rebalance -- budgets        the same beside 20,000 disruption budgets
//! cargo bench --bench rebalance -- nodes          plans of nodes: drains, spare nodes and needs
//! ```

mod cpu;
#[allow(dead_code, reason = "shared with other benches")]
mod world;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use evenkeel::api::Service;
use evenkeel::kubernetes::Transport;
use evenkeel::matching::Path;
use evenkeel::plan::{
    DrainOptions, EvictionRules, NeedOptions, NeededPods, RebalanceOptions, SpareOptions,
    StayingPods, drain_nodes, need_nodes, rebalance, spare_nodes,
};
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::snapshot::{Batch, Imagined, Limits};
use evenkeel::spread::Question;
use tokio_util::sync::CancellationToken;

use cpu::thread_time;
use world::World;

const NODES: usize = 5_000;
const ZONES: usize = 10;
const WORKLOADS: usize = 1_000;
const PODS_OF_EACH: usize = 150;
const VIOLATING: usize = 50;
/// The number of pods that are in a wrong zone, for each workload that violates its constraint.
const MISPLACED: usize = 5;
const NAMESPACES: usize = 20;
/// The number of budgets, all in one namespace.
const BUDGETS: usize = 20_000;
/// The number of decisions in each round, and of rounds with and without plans.
const DECISIONS: usize = 2_000;
const ROUNDS: usize = 3;

fn main() {
    if std::env::args().any(|arg| arg == "nodes") {
        return nodes();
    }
    let has_budgets = std::env::args().any(|arg| arg == "budgets");
    let budgets = has_budgets.then(|| (0..BUDGETS).map(budget).collect());
    let world = World::of(batches().chain(budgets));
    let options = options();
    for _ in 0..5 {
        let start = thread_time();
        let plan = |imagined: &mut Imagined<'_>| rebalance(imagined, &options);
        let snapshot = world.snapshot();
        let plan = snapshot.imagine(&Batch::default(), &|| false, plan);
        let took = thread_time() - start;
        let plan = plan.expect("nobody gives up");
        let even = plan.workloads.iter().filter(|it| it.blockers.is_empty());
        println!(
            "{} moves, {} of {} workloads even, fewest: {}: {:.0} ms of CPU",
            plan.moves.len(),
            even.count(),
            plan.workloads.len(),
            plan.optimal,
            took.as_secs_f64() * 1e3
        );
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(beside(world));
}

/// Measures plans of nodes: a drain of 50 nodes, 10 spare nodes, and nodes for 10,000 pods.
fn nodes() {
    let mut pods: HashMap<String, usize> = HashMap::new();
    for change in batches().flatten() {
        if let Some(Object::Pod(pod)) = change.object {
            let node = pod.spec.unwrap_or_default().node_name;
            *pods.entry(node).or_default() += 1;
        }
    }
    let having_room = |change| having_room(change, &pods);
    let with_room = |batch: Vec<v1::Change>| batch.into_iter().map(having_room).collect();
    let world = World::of(batches().map(with_room));
    let drain = DrainOptions {
        nodes: (0..50).map(|number| node_name(number * 97)).collect(),
        one_at_a_time: false,
        whole_only: false,
        rules: rules(),
    };
    let spare = SpareOptions {
        most: 10,
        selector: None,
        stay: Default::default(),
        rules: rules(),
    };
    let need = || {
        let wanted = having_room(change(Object::Pod(pod(1, "new", None))));
        let Some(Object::Pod(wanted)) = wanted.object else {
            unreachable!("it is a pod")
        };
        let question = Question::compile(Some(&wanted), &Limits::default(), Path::root("pod"));
        NeedOptions {
            pods: vec![NeededPods {
                question: question.expect("a valid pod"),
                replicas: 10_000,
                name: "app-1".to_owned(),
                index: 0,
            }],
            pending: None,
            templates: vec![v1::NodeTemplate {
                name: "new".to_owned(),
                node: node_name(0),
                domains: vec![v1::TopologyValues {
                    topology_key: "topology.kubernetes.io/zone".to_owned(),
                    values: (0..ZONES).map(|zone| format!("zone-{zone}")).collect(),
                }],
                ..Default::default()
            }],
            limits: Limits::default(),
        }
    };
    let snapshot = world.snapshot();
    for _ in 0..3 {
        let start = thread_time();
        let plan = |imagined: &mut Imagined<'_>| drain_nodes(imagined, &drain);
        let drained = snapshot.imagine(&Batch::default(), &|| false, plan);
        let drained = drained.expect("nobody gives up");
        let took = millis_since(start);
        let (moves, blocked) = (drained.moves.len(), drained.blocked.len());
        println!("drain: {moves} moves, {blocked} blocked: {took:.0} ms of CPU");
        let start = thread_time();
        let plan = |imagined: &mut Imagined<'_>| spare_nodes(imagined, &spare);
        let spared = snapshot.imagine(&Batch::default(), &|| false, plan);
        let spared = spared.expect("nobody gives up");
        let took = millis_since(start);
        let (nodes, bound) = (spared.nodes.len(), spared.bound);
        println!("spare: {nodes} of at most {bound:?}: {took:.0} ms of CPU");
        let start = thread_time();
        let plan = |imagined: &mut Imagined<'_>| need_nodes(imagined, need());
        let needed = snapshot.imagine(&Batch::default(), &|| false, plan);
        let v1::PlanNodesResponse {
            price,
            bound,
            unplaced,
            ..
        } = needed.expect("nobody gives up");
        let took = millis_since(start);
        let unplaced = unplaced.len();
        println!(
            "need: price {price}, at least {bound:?}, {unplaced} unplaced: {took:.0} ms of CPU"
        );
    }
}

fn millis_since(start: Duration) -> f64 {
    (thread_time() - start).as_secs_f64() * 1e3
}

/// A node with room for one pod more than it has, or a pod that takes of it.
fn having_room(mut change: v1::Change, pods: &HashMap<String, usize>) -> v1::Change {
    let amounts = |amounts: &[(&str, &str)]| {
        let amounts = amounts.iter().map(|(name, text)| {
            let string = (*text).into();
            ((*name).to_owned(), v1::Quantity { string })
        });
        amounts.collect()
    };
    match &mut change.object {
        Some(Object::Node(node)) => {
            let name = node.metadata.as_ref().map_or("", |metadata| &metadata.name);
            let cpu = format!("{}m", 250 * (1 + pods.get(name).copied().unwrap_or(0)));
            let status = node.status.get_or_insert_default();
            status.allocatable = amounts(&[("cpu", &cpu), ("pods", "110")]);
        }
        Some(Object::Pod(pod)) => {
            let container = v1::Container {
                resources: Some(v1::ResourceRequirements {
                    requests: amounts(&[("cpu", "250m")]),
                }),
                ..Default::default()
            };
            pod.spec.get_or_insert_default().containers = vec![container];
        }
        _ => {}
    }
    change
}

fn options() -> RebalanceOptions {
    RebalanceOptions {
        namespace: None,
        workload: None,
        selector: None,
        soft: false,
        by: None,
        most_moves: 100_000,
        most_of_workload: usize::MAX,
        most_of_node: usize::MAX,
        rules: rules(),
    }
}

fn rules() -> EvictionRules {
    EvictionRules {
        max_unavailable: 1,
        moves_bare: false,
        keeps: None,
        stay: StayingPods::default(),
        max_domains: 10,
        limits: Limits::default(),
    }
}

/// Measures decisions without and with plans beside them, in turns.
async fn beside(world: World) {
    let service = Service::new(world.registry, CancellationToken::new());
    let client = || {
        let client = SpreadServiceClient::new(service.clone().in_process());
        client.max_decoding_message_size(64 << 20)
    };
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let alone = p99(client()).await;
        let with_plans = tokio::select! {
            took = p99(client()) => took,
            never = plan_on(client()) => match never {},
        };
        println!("p99 of decisions: {alone:?} alone, {with_plans:?} beside plans");
        ratios.push(with_plans.as_secs_f64() / alone.as_secs_f64());
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("ratio: {:.2} (median of {ROUNDS})", ratios[ROUNDS / 2]);
}

/// Asks for one plan after the other.
async fn plan_on(mut client: SpreadServiceClient<Transport>) -> Infallible {
    loop {
        let answer = client.rebalance(v1::RebalanceRequest::default()).await;
        answer.expect("a valid request");
    }
}

async fn p99(mut client: SpreadServiceClient<Transport>) -> Duration {
    let mut took = Vec::with_capacity(DECISIONS);
    for number in 0..DECISIONS {
        let request = v1::FilterRequest {
            pod: Some(pod(number % WORKLOADS, "next", None)),
            view: v1::View::Domains.into(),
            ..v1::FilterRequest::default()
        };
        let start = Instant::now();
        let answer = client.filter(request).await;
        answer.expect("a valid request");
        took.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    took.sort_unstable();
    took[DECISIONS * 99 / 100]
}

fn batches() -> impl Iterator<Item = Vec<v1::Change>> {
    let nodes = (0..NODES).map(|number| {
        let labels = [
            (
                "topology.kubernetes.io/zone",
                format!("zone-{}", number % ZONES),
            ),
            ("kubernetes.io/hostname", node_name(number)),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value));
        let metadata = v1::ObjectMeta {
            name: node_name(number),
            labels: BTreeMap::from(labels),
            ..Default::default()
        };
        change(Object::Node(v1::Node {
            metadata: Some(metadata),
            ..Default::default()
        }))
    });
    let pods = (0..WORKLOADS).map(|workload| {
        let pods = (0..PODS_OF_EACH).map(move |number| {
            // Consecutive nodes are in consecutive zones. Some pods of violating workloads are one
            // node further on, and so in a wrong zone.
            let at = workload * 13 + number;
            let is_misplaced =
                workload < VIOLATING && number < MISPLACED * ZONES && number % ZONES == 0;
            let node = (at + usize::from(is_misplaced)) % NODES;
            let pod = pod(workload, &number.to_string(), Some(node));
            change(Object::Pod(pod))
        });
        pods.collect()
    });
    std::iter::once(nodes.collect()).chain(pods)
}

/// A budget of a workload that does not exist, beside those that do.
fn budget(number: usize) -> v1::Change {
    let pod = pod(WORKLOADS + number * NAMESPACES, "", None);
    let metadata = pod.metadata.unwrap_or_default();
    let selector = v1::LabelSelector {
        match_labels: metadata.labels,
        ..Default::default()
    };
    change(Object::PodDisruptionBudget(v1::PodDisruptionBudget {
        metadata: Some(v1::ObjectMeta {
            name: format!("budget-{number}"),
            namespace: metadata.namespace,
            ..Default::default()
        }),
        spec: Some(v1::PodDisruptionBudgetSpec {
            selector: Some(selector),
            ..Default::default()
        }),
        ..Default::default()
    }))
}

fn change(object: Object) -> v1::Change {
    v1::Change {
        object: Some(object),
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

fn pod(workload: usize, name: &str, node: Option<usize>) -> v1::Pod {
    let app = format!("app-{workload}");
    let labels = BTreeMap::from([("app".to_owned(), app.clone())]);
    let owner = v1::OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: app.clone(),
        controller: Some(true),
        ..Default::default()
    };
    let constraint = v1::TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(v1::LabelSelector {
            match_labels: labels.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    v1::Pod {
        metadata: Some(v1::ObjectMeta {
            namespace: format!("ns-{}", workload % NAMESPACES),
            name: format!("{app}-{name}"),
            labels,
            owner_references: vec![owner],
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            node_name: node.map(node_name).unwrap_or_default(),
            topology_spread_constraints: vec![constraint],
            ..Default::default()
        }),
        status: Some(v1::PodStatus {
            phase: if node.is_some() { "Running" } else { "Pending" }.to_owned(),
            ..Default::default()
        }),
    }
}
