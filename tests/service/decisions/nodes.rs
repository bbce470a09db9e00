//! Plans of PlanNodes: each step is accepted by the recount after those before it, nothing is
//! violated more than before, and what is said to be proven is so by trying everything.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::decisions::worlds::{Constraint, KEYS, Nodes, RACK, cases, name};
use evenkeel::proto::v1::plan_nodes_request::Question;
use evenkeel::proto::v1::{
    Change, NeededPods, Node, NodeChecks, NodeDrain, NodeNeed, NodeSpare, NodeTemplate,
    PlanNodesRequest, PlanNodesResponse, Pod, TopologyValues,
};
use fastrand::Rng;
use support::build::{ZONE, having, node, on, owned_by, pod, requesting, spread};
use support::model::{self, Stored, delete};
use support::recount::Cluster;
use support::server::Server;

/// Asks the server about nodes.
pub(crate) async fn ask(server: &Server, question: Question) -> PlanNodesResponse {
    server.plan_nodes(request(question)).await
}

pub(crate) fn request(question: Question) -> PlanNodesRequest {
    PlanNodesRequest {
        question: Some(question),
        max_domains: Some(0),
        ..PlanNodesRequest::default()
    }
}

pub(crate) fn drain(nodes: &[&str]) -> NodeDrain {
    NodeDrain {
        nodes: nodes.iter().map(|name| (*name).into()).collect(),
        ..NodeDrain::default()
    }
}

/// The nodes on which the recount lets a pod run.
fn feasible(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let incoming = on(pod.clone(), "");
    let answer = cluster.filter(&incoming, None, NodeChecks::Unspecified);
    answer.feasible()
}

fn name_of(object: &impl Stored) -> &str {
    &object.metadata().name
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().map_or("", |spec| &spec.node_name)
}

fn kind_of(pod: &Pod) -> &str {
    let owners = pod.metadata.as_ref().map(|it| &it.owner_references);
    owners.and_then(|it| it.first()).map_or("", |it| &it.kind)
}

/// A node, cordoned as Kubernetes does it.
fn cordon(cluster: &mut Cluster, name: &str) -> Node {
    let before = cluster.nodes.iter();
    let before = before.clone().find(|it| it.metadata().name == name);
    let before = before.expect("the node is there").clone();
    let mut after = support::build::cordoned(before.clone());
    after = support::build::tainted(after, "node.kubernetes.io/unschedulable", "", "NoSchedule");
    model::apply(cluster, &after.change());
    before
}

/// A node goes, with the pods that are still on it.
fn go(cluster: &mut Cluster, name: &str) {
    let own = cluster.pods.iter().filter(|pod| node_of(pod) == name);
    let own: Vec<String> = own.map(|pod| name_of(pod).into()).collect();
    for pod in own {
        model::apply(cluster, &delete("Pod", "", &pod));
    }
    model::apply(cluster, &delete("Node", "", name));
}

/// Makes the steps of a drain, of which the recount must accept each.
fn replay(cluster: &mut Cluster, plan: &PlanNodesResponse, asked: &NodeDrain, say: &str) {
    let mut before = BTreeMap::new();
    if !asked.one_at_a_time {
        for name in &asked.nodes {
            cordon(cluster, name);
        }
    }
    let mut moves = plan.moves.iter().peekable();
    for node in &plan.nodes {
        if asked.one_at_a_time {
            before.insert(&node.name, cordon(cluster, &node.name));
        }
        let mut waiting = Vec::new();
        while let Some(step) = moves.next_if(|it| it.from == node.name) {
            let own = cluster
                .pods
                .iter()
                .filter(|pod| pod.metadata().name == step.pod);
            let old = own.clone().next().expect("the pod is there").clone();
            assert_eq!(node_of(&old), step.from, "{say}");
            model::apply(cluster, &delete("Pod", "", &step.pod));
            let new = on(old, &step.to);
            if step.waits_for_node {
                waiting.push(new);
                continue;
            }
            assert!(waiting.is_empty(), "{say}");
            assert!(
                feasible(cluster, &new).contains(&step.to),
                "{step:?}: {say}"
            );
            model::apply(cluster, &new.change());
        }
        let left = cluster.pods.iter().filter(|pod| node_of(pod) == node.name);
        let left = left.filter(|pod| !["DaemonSet", "Node"].contains(&kind_of(pod)));
        assert_eq!(left.count() == 0, node.emptied, "{node:?}: {say}");
        assert!(node.emptied || waiting.is_empty(), "{say}");
        if node.emptied {
            match before.remove(&node.name) {
                Some(before) => {
                    model::apply(cluster, &before.change());
                }
                None => go(cluster, &node.name),
            }
        }
        for new in waiting {
            let to = node_of(&new).to_owned();
            assert!(feasible(cluster, &new).contains(&to), "{to}: {say}");
            model::apply(cluster, &new.change());
        }
    }
    assert_eq!(moves.next(), None, "{say}");
}

/// A small cluster with two workloads and a DaemonSet.
#[derive(Debug, Clone)]
struct Case {
    nodes: Nodes,
    room: Vec<usize>,
    workloads: Vec<Workload>,
    has_daemons: bool,
}

#[derive(Debug, Clone)]
struct Workload {
    constraints: Vec<Constraint>,
    /// The CPU that a pod requests.
    cpu: usize,
    /// The node of each pod.
    nodes: Vec<usize>,
}

/// The pod of a DaemonSet on a node.
fn daemon(node: &str) -> Change {
    let daemon = on(pod(&format!("d-{node}"), &[("app", "d")]), node);
    owned_by(daemon, "DaemonSet", "d").change()
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let nodes = Nodes::random(rng, 6);
        let mut workloads: Vec<Workload> = Vec::new();
        for _ in 0..rng.usize(1..3) {
            let keys = match rng.usize(..=KEYS.len()) {
                0 => &[][..],
                at => KEYS[at - 1],
            };
            let constraints = Constraint::hard(rng, keys);
            let pods = rng.usize(1..5);
            let pods = nodes.draw(rng, pods);
            workloads.push(Workload {
                constraints,
                cpu: rng.usize(1..3),
                nodes: pods,
            });
        }
        let used = |at: usize| -> usize {
            let all = workloads.iter();
            all.map(|it| it.cpu * it.nodes.iter().filter(|node| **node == at).count())
                .sum()
        };
        let room = (0..nodes.count()).map(|at| used(at).max(rng.usize(1..6)));
        let room = room.collect();
        Self {
            room,
            has_daemons: rng.bool(),
            nodes,
            workloads,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (at, node) in self.nodes.objects().enumerate() {
            let cpu = self.room[at].to_string();
            changes.push(having(node, &[("pods", "20"), ("cpu", &cpu)]).change());
            changes.extend(self.has_daemons.then(|| daemon(&name(at))));
        }
        for (number, workload) in self.workloads.iter().enumerate() {
            for (index, at) in workload.nodes.iter().enumerate() {
                let pod = self.pod(number, &format!("w{number}-{index}"));
                changes.push(on(pod, &name(*at)).change());
            }
        }
        changes
    }

    fn pod(&self, number: usize, name: &str) -> Pod {
        let app = format!("w{number}");
        let labels = [("app", &*app)];
        let workload = &self.workloads[number];
        let constraints = workload.constraints.iter().map(|it| it.counting(&labels));
        let pod = spread(pod(name, &labels), constraints.collect());
        let pod = requesting(pod, &[("cpu", &workload.cpu.to_string())]);
        owned_by(pod, "ReplicaSet", &app)
    }

    fn cluster(&self) -> Cluster {
        model::cluster(&self.changes())
    }

    /// How far the skew of each constraint exceeds what it allows.
    fn excess(&self, cluster: &Cluster) -> Vec<i64> {
        let there = |at: &usize| cluster.nodes.iter().any(|it| name_of(it) == name(*at));
        let there: Vec<usize> = (0..self.nodes.count()).filter(there).collect();
        let nodes = Nodes(there.iter().map(|at| self.nodes.0[*at].clone()).collect());
        let mut all = Vec::new();
        for (number, Workload { constraints, .. }) in self.workloads.iter().enumerate() {
            let pods_on = |at: &usize| {
                let own = cluster.pods.iter().filter(|pod| node_of(pod) == name(*at));
                let app = format!("w{number}-");
                own.filter(|pod| pod.metadata().name.starts_with(&app))
                    .count()
            };
            let pods: Vec<usize> = there.iter().map(pods_on).collect();
            for (of, constraint) in constraints.iter().enumerate() {
                let skew = nodes.skew(constraints, of, &pods);
                all.push((skew - i64::from(constraint.max_skew)).max(0));
            }
        }
        all
    }
}

/// Returns whether nodes can all be emptied and go, found by trying all orders and all targets.
fn can_all_go(cluster: &Cluster, going: &BTreeSet<String>, seen: &mut HashSet<String>) -> bool {
    let there = |name: &String| cluster.nodes.iter().any(|it| name_of(it) == name);
    let left: Vec<&String> = going.iter().filter(|name| there(name)).collect();
    if left.is_empty() {
        return true;
    }
    let mut state: Vec<_> = cluster
        .pods
        .iter()
        .map(|it| (name_of(it), node_of(it)))
        .collect();
    state.sort_unstable();
    if !seen.insert(format!("{state:?} {left:?}")) || seen.len() > 20_000 {
        return false;
    }
    for name in left {
        let own = cluster.pods.iter().filter(|pod| node_of(pod) == name);
        let own: Vec<&Pod> = own.filter(|pod| kind_of(pod) == "ReplicaSet").collect();
        if own.is_empty() {
            let mut next = cluster.clone();
            go(&mut next, name);
            if can_all_go(&next, going, seen) {
                return true;
            }
        }
        // Of each workload one pod may wait until the node is gone.
        let apps: BTreeSet<&str> = own.iter().map(|pod| &pod.metadata().name[..3]).collect();
        if !own.is_empty() && apps.len() == own.len() {
            let mut next = cluster.clone();
            go(&mut next, name);
            if can_place(&next, own.clone(), &mut |next| {
                can_all_go(next, going, seen)
            }) {
                return true;
            }
        }
        for pod in own {
            let mut without = cluster.clone();
            model::apply(&mut without, &delete("Pod", "", name_of(pod)));
            for to in feasible(&without, pod) {
                let mut next = without.clone();
                model::apply(&mut next, &on(pod.clone(), &to).change());
                if can_all_go(&next, going, seen) {
                    return true;
                }
            }
        }
    }
    false
}

/// Tries to place pods in all orders on all nodes, and then `goes_on`.
fn can_place(
    cluster: &Cluster,
    pods: Vec<&Pod>,
    goes_on: &mut dyn FnMut(&Cluster) -> bool,
) -> bool {
    if pods.is_empty() {
        return goes_on(cluster);
    }
    for at in 0..pods.len() {
        let mut rest = pods.clone();
        let pod = rest.remove(at);
        for to in feasible(cluster, pod) {
            let mut next = cluster.clone();
            model::apply(&mut next, &on(pod.clone(), &to).change());
            if can_place(&next, rest.clone(), goes_on) {
                return true;
            }
        }
    }
    false
}

/// The cluster with nodes cordoned.
fn cordoned(cluster: &Cluster, names: &BTreeSet<String>) -> Cluster {
    let mut cluster = cluster.clone();
    for name in names {
        cordon(&mut cluster, name);
    }
    cluster
}

/// Random drains: every step is accepted, nothing gets worse, what is proven is true, and few are missed.
#[tokio::test]
async fn no_drain_that_is_said_to_be_impossible_is_possible() {
    let server = Server::start().await;
    let (mut whole, mut missed, mut proven) = (0, 0, 0);
    for seed in 0..cases() {
        let mut rng = Rng::with_seed(seed);
        let case = Case::random(&mut rng);
        server.replace_all(case.changes()).await;
        let some = (0..case.nodes.count()).filter(|_| rng.usize(..3) == 0);
        let mut names: Vec<String> = some.map(name).collect();
        if names.is_empty() {
            names.push("n0".into());
        }
        let asked = NodeDrain {
            nodes: names.clone(),
            one_at_a_time: rng.usize(..4) == 0,
            rules: None,
        };
        let plan = ask(&server, Question::Drain(asked.clone())).await;
        let say = format!("seed {seed}: {plan:?} of {asked:?} of {case:?}");
        assert_eq!(plan.nodes.len(), names.len(), "{say}");
        let before = case.cluster();
        let mut after = before.clone();
        replay(&mut after, &plan, &asked, &say);
        let pairs = case.excess(&before).into_iter().zip(case.excess(&after));
        pairs.for_each(|(before, after)| assert!(after <= before, "{say}"));
        let is_whole = plan.nodes.iter().all(|node| node.emptied);
        assert_eq!(is_whole, plan.blocked.is_empty(), "{say}");
        assert!(!is_whole || plan.optimal, "{say}");
        proven += u64::from(plan.optimal);
        whole += u64::from(is_whole);
        if !is_whole && !asked.one_at_a_time {
            let names: BTreeSet<String> = names.into_iter().collect();
            let start = cordoned(&before, &names);
            if can_all_go(&start, &names, &mut HashSet::new()) {
                assert!(!plan.optimal, "{say}");
                missed += 1;
            }
        }
    }
    println!(
        "{whole} of {} whole, {proven} proven, {missed} missed",
        cases()
    );
    assert!(whole * 4 > cases(), "{whole}");
    assert!(missed * 50 <= cases(), "{missed}");
}

/// Random sets of spare nodes: they can go, and no more can than the bound says.
#[tokio::test]
async fn no_more_nodes_can_go_than_the_bound_says() {
    let server = Server::start().await;
    let (mut found, mut proven, mut missed) = (0, 0, 0);
    for seed in 0..cases() / 3 {
        let mut rng = Rng::with_seed(5_000_000 + seed);
        let case = Case::random(&mut rng);
        server.replace_all(case.changes()).await;
        let max = rng.i32(1..4);
        let question = NodeSpare {
            max,
            ..NodeSpare::default()
        };
        let plan = ask(&server, Question::Spare(question)).await;
        let names: Vec<&str> = plan.nodes.iter().map(|node| &*node.name).collect();
        let say = format!("seed {seed}: {plan:?} of {max} of {case:?}");
        assert!(plan.nodes.iter().all(|node| node.emptied), "{say}");
        let mut after = case.cluster();
        replay(&mut after, &plan, &drain(&names), &say);
        let spare = names.len();
        assert!(
            spare as i64 <= plan.bound && plan.bound <= i64::from(max),
            "{say}"
        );
        assert_eq!(plan.optimal, spare as i64 == plan.bound, "{say}");
        found += spare;
        proven += u64::from(plan.optimal);
        let start = case.cluster();
        let most = (0..1_u32 << case.nodes.count())
            .filter(|set| set.count_ones() as usize == spare + 1)
            .any(|set| {
                let going = (0..case.nodes.count()).filter(|at| set & (1 << at) != 0);
                let going: BTreeSet<String> = going.map(name).collect();
                can_all_go(&cordoned(&start, &going), &going, &mut HashSet::new())
            });
        if most && (spare as i32) < max {
            assert!(!plan.optimal, "{say}");
            missed += 1;
        }
    }
    println!(
        "{found} spare, {proven} proven, {missed} missed of {}",
        cases() / 3
    );
    assert!(missed * 20 <= cases() / 3, "{missed}");
}

/// Random needs: all pods fit on the nodes, and where it is proven fewer nodes do not do.
#[tokio::test]
async fn no_fewer_nodes_do_than_are_proven() {
    let server = Server::start().await;
    let (mut needed, mut proven, mut missed) = (0, 0, 0);
    for seed in 0..cases() / 2 {
        let mut rng = Rng::with_seed(9_000_000 + seed);
        let case = Case::random(&mut rng);
        server.replace_all(case.changes()).await;
        let replicas = rng.usize(1..6);
        let zones: Vec<String> = ["v0", "v1", "z"][..rng.usize(1..4)]
            .iter()
            .map(|it| (*it).into())
            .collect();
        let cpu = rng.usize(1..5).to_string();
        let like = having(
            node("pool", &[(RACK, "v0")]),
            &[("pods", "20"), ("cpu", &cpu)],
        );
        let wanted = case.pod(0, "");
        let question = NodeNeed {
            pods: vec![NeededPods {
                pod: Some(wanted.clone()),
                replicas: replicas as i32,
            }],
            templates: vec![NodeTemplate {
                object: Some(like.clone()),
                domains: vec![TopologyValues {
                    topology_key: ZONE.into(),
                    values: zones.clone(),
                }],
                ..NodeTemplate::default()
            }],
            ..NodeNeed::default()
        };
        let plan = ask(&server, Question::Need(question)).await;
        let say =
            format!("seed {seed}: {plan:?} of {replicas} with {cpu} in {zones:?} of {case:?}");
        let made = |counts: &[usize]| {
            let mut cluster = case.cluster();
            let mut number = 0;
            for (zone, count) in zones.iter().zip(counts) {
                for _ in 0..*count {
                    number += 1;
                    let name = format!("pool+{number}");
                    let mut node = node(&name, &[(RACK, "v0"), (ZONE, zone)]);
                    node.status = like.status.clone();
                    let daemon = case.has_daemons.then(|| daemon(&name));
                    let made = [node.change()].into_iter().chain(daemon);
                    made.for_each(|change| model::apply(&mut cluster, &change));
                }
            }
            cluster
        };
        let counts: Vec<usize> = zones
            .iter()
            .map(|zone| {
                let own = plan.new_nodes.iter().filter(|it| it.domains[ZONE] == *zone);
                own.map(|it| it.names.len()).sum()
            })
            .collect();
        let mut cluster = made(&counts);
        let mut placed = 0;
        for it in &plan.placed {
            for _ in 0..it.count {
                let pod = case.pod(0, &format!("w0-new{placed}"));
                assert!(feasible(&cluster, &pod).contains(&it.node), "{it:?}: {say}");
                model::apply(&mut cluster, &on(pod, &it.node).change());
                placed += 1;
            }
        }
        let unplaced: i64 = plan.unplaced.iter().map(|it| it.count).sum();
        assert_eq!(placed + unplaced as usize, replicas, "{say}");
        let price: usize = counts.iter().sum();
        assert_eq!(plan.price, price as i64, "{say}");
        assert_eq!(
            plan.optimal,
            unplaced == 0 && plan.bound >= plan.price,
            "{say}"
        );
        needed += usize::from(price > 0);
        proven += usize::from(plan.optimal);
        if unplaced > 0 {
            continue;
        }
        let pods: Vec<Pod> = (0..replicas)
            .map(|at| case.pod(0, &format!("w0-new{at}")))
            .collect();
        let fewer = price.checked_sub(1).is_some_and(|most| {
            choices(zones.len(), most)
                .iter()
                .any(|counts| fits(&made(counts), &pods, &mut HashSet::new()))
        });
        if fewer {
            assert!(!plan.optimal, "{say}");
            missed += 1;
        }
    }
    println!(
        "{needed} need nodes, {proven} proven, {missed} missed of {}",
        cases() / 2
    );
    assert!(needed as u64 * 4 > cases() / 2, "{needed}");
    assert_eq!(missed, 0);
}

/// All choices of at most this many nodes of some kinds.
fn choices(kinds: usize, most: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..kinds {
        let longer = all.iter().flat_map(|known: &Vec<usize>| {
            let left = most - known.iter().sum::<usize>();
            (0..=left).map(move |count| [&known[..], &[count]].concat())
        });
        all = longer.collect();
    }
    all
}

/// Returns whether alike pods can all be placed, found by trying all.
fn fits(cluster: &Cluster, pods: &[Pod], seen: &mut HashSet<String>) -> bool {
    let Some((first, rest)) = pods.split_first() else {
        return true;
    };
    let mut state: Vec<&str> = cluster.pods.iter().map(node_of).collect();
    state.sort_unstable();
    if !seen.insert(format!("{state:?}")) {
        return false;
    }
    feasible(cluster, first).into_iter().any(|to| {
        let mut next = cluster.clone();
        model::apply(&mut next, &on(first.clone(), &to).change());
        fits(&next, rest, seen)
    })
}
