//! Plans of PlanNodes: each step is accepted by the recount after those before it, nothing is
//! violated more than before, and what is said to be proven is so by trying everything.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use crate::decisions::joint::random_nodes;
use crate::decisions::rebalance::{KEYS, cases};
use crate::decisions::removals::RACK;
use evenkeel::proto::v1::plan_nodes_request::Question;
use evenkeel::proto::v1::{
    Change, EvictionRules, IntOrString, NeededPods, Node, NodeChecks, NodeDrain, NodeNeed,
    NodeSpare, NodeTemplate, OwnerReference, PlaceRequest, PlanNodesRequest, PlanNodesResponse,
    Pod, PodDisruptionBudget, PodDisruptionBudgetSpec, Reservation, StayingPod, TopologyValues,
};
use fastrand::Rng;
use serde_json::json;
use support::build::{ZONE, hard, having, node, nominated, on, place_of, pod, requesting, spread};
use support::model::{self, Stored, delete};
use support::recount::Cluster;
use support::server::Server;

/// Asks the server about nodes.
pub(crate) async fn ask(server: &Server, question: Question) -> PlanNodesResponse {
    let answer = server.client().plan_nodes(request(question)).await;
    answer.expect("a valid question").into_inner()
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

/// The pod, of this controller.
pub(crate) fn owned_by(mut pod: Pod, kind: &str, name: &str) -> Pod {
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: name.into(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    pod.metadata.get_or_insert_default().owner_references = vec![owner];
    pod
}

/// The nodes on which the recount lets a pod run.
fn feasible(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let incoming = on(pod.clone(), "");
    let answer = cluster.filter(&incoming, None, NodeChecks::Unspecified);
    answer.feasible()
}

fn name_of(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.name)
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
    let mut before = before.filter(|it| it.metadata.as_ref().is_some_and(|it| it.name == name));
    let before = before.next().expect("the node is there").clone();
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
            let own = cluster.pods.iter().filter(|pod| name_of(pod) == step.pod);
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
    nodes: Vec<BTreeMap<&'static str, String>>,
    room: Vec<usize>,
    workloads: Vec<Workload>,
    has_daemons: bool,
}

#[derive(Debug, Clone)]
struct Workload {
    /// The key and the max skew of each hard constraint.
    constraints: Vec<(&'static str, i32)>,
    /// The CPU that a pod requests.
    cpu: usize,
    /// The node of each pod.
    nodes: Vec<usize>,
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let nodes = random_nodes(rng, 6);
        let mut workloads: Vec<Workload> = Vec::new();
        for _ in 0..rng.usize(1..3) {
            let keys = match rng.usize(..=KEYS.len()) {
                0 => &[][..],
                at => KEYS[at - 1],
            };
            let keys = keys.iter();
            let constraints: Vec<_> = keys.map(|key| (*key, rng.i32(1..3))).collect();
            let pods = rng.usize(1..5);
            let pods: Vec<usize> = (0..pods).map(|_| rng.usize(..nodes.len())).collect();
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
        let room = (0..nodes.len()).map(|at| used(at).max(rng.usize(1..6)));
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
        for (at, labels) in self.nodes.iter().enumerate() {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let name = format!("n{at}");
            let cpu = self.room[at].to_string();
            let has = [("pods", "20"), ("cpu", &cpu)];
            changes.push(having(node(&name, &labels), &has).change());
            if self.has_daemons {
                let daemon = on(pod(&format!("d{at}"), &[("app", "d")]), &name);
                changes.push(owned_by(daemon, "DaemonSet", "d").change());
            }
        }
        for (number, workload) in self.workloads.iter().enumerate() {
            for (index, at) in workload.nodes.iter().enumerate() {
                let pod = on(
                    self.pod(number, &format!("w{number}-{index}")),
                    &format!("n{at}"),
                );
                changes.push(pod.change());
            }
        }
        changes
    }

    fn pod(&self, number: usize, name: &str) -> Pod {
        let app = format!("w{number}");
        let labels = [("app", &*app)];
        let workload = &self.workloads[number];
        let constraints = workload.constraints.iter();
        let constraints = constraints.map(|(key, skew)| hard(*skew, key, &labels));
        let pod = spread(pod(name, &labels), constraints.collect());
        let pod = requesting(pod, &[("cpu", &workload.cpu.to_string())]);
        owned_by(pod, "ReplicaSet", &app)
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::default();
        for change in self.changes() {
            model::apply(&mut cluster, &change);
        }
        cluster
    }

    /// How far the skew of each constraint exceeds what it allows.
    fn excess(&self, cluster: &Cluster) -> Vec<i64> {
        let mut all = Vec::new();
        for (number, Workload { constraints, .. }) in self.workloads.iter().enumerate() {
            let labels = |node: &Node| node.metadata.clone().unwrap_or_default().labels;
            let nodes: BTreeMap<String, _> = cluster
                .nodes
                .iter()
                .filter(|node| {
                    constraints
                        .iter()
                        .all(|(key, _)| labels(node).contains_key(*key))
                })
                .map(|node| (node.metadata.clone().unwrap_or_default().name, labels(node)))
                .collect();
            for (key, max_skew) in constraints {
                let mut counts: BTreeMap<&String, i64> = BTreeMap::new();
                for (name, labels) in &nodes {
                    let own = cluster.pods.iter().filter(|pod| node_of(pod) == name);
                    let app = format!("w{number}-");
                    let own = own.filter(|pod| name_of(pod).starts_with(&app)).count();
                    *counts.entry(&labels[*key]).or_default() += own as i64;
                }
                let least = counts.values().min().copied().unwrap_or(0);
                let most = counts.values().max().copied().unwrap_or(0);
                all.push((most - least - i64::from(*max_skew)).max(0));
            }
        }
        all
    }
}

/// Returns whether nodes can all be emptied and go, found by trying all orders and all targets.
fn can_all_go(cluster: &Cluster, going: &BTreeSet<String>, seen: &mut HashSet<String>) -> bool {
    let there = |name: &String| {
        let mut nodes = cluster.nodes.iter();
        nodes.any(|it| it.metadata.as_ref().is_some_and(|it| it.name == *name))
    };
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
        let apps: BTreeSet<&str> = own.iter().map(|pod| &name_of(pod)[..3]).collect();
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
        let some = (0..case.nodes.len()).filter(|_| rng.usize(..3) == 0);
        let mut names: Vec<String> = some.map(|at| format!("n{at}")).collect();
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
        let most = (0..1_u32 << case.nodes.len())
            .filter(|set| set.count_ones() as usize == spare + 1)
            .any(|set| {
                let going = (0..case.nodes.len()).filter(|at| set & (1 << at) != 0);
                let going: BTreeSet<String> = going.map(|at| format!("n{at}")).collect();
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
                    let mut node = node(&format!("pool+{number}"), &[(RACK, "v0"), (ZONE, zone)]);
                    node.status = like.status.clone();
                    model::apply(&mut cluster, &node.change());
                    if case.has_daemons {
                        let name = format!("pool+{number}");
                        let daemon = on(pod(&format!("d{name}"), &[("app", "d")]), &name);
                        model::apply(&mut cluster, &owned_by(daemon, "DaemonSet", "d").change());
                    }
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

/// The names of the nodes that are emptied.
fn emptied(plan: &PlanNodesResponse) -> Vec<&str> {
    let nodes = plan.nodes.iter().filter(|node| node.emptied);
    nodes.map(|node| &*node.name).collect()
}

const WEB: [(&str, &str); 1] = [("app", "w0")];

/// Nodes of a processor each, one in each of these zones.
fn zones(names: &[&str]) -> Vec<Change> {
    let nodes = names.iter().map(|zone| {
        let node = node(&format!("{zone}1"), &[(ZONE, zone)]);
        having(node, &[("cpu", "4"), ("pods", "9")]).change()
    });
    nodes.collect()
}

fn web(name: &str, node: &str) -> Pod {
    let pod = spread(on(pod(name, &WEB), node), vec![hard(1, ZONE, &WEB)]);
    owned_by(pod, "ReplicaSet", "w0")
}

/// What keeps a pod on its node, in words, and whether that is proven.
#[tokio::test]
async fn what_cannot_go_is_told() {
    type Make = fn(&mut Vec<Change>, &mut NodeDrain);
    let budget = |changes: &mut Vec<Change>, allowed: i32| {
        let mut budget = PodDisruptionBudget {
            metadata: Some(support::build::meta("b", &[])),
            ..PodDisruptionBudget::default()
        };
        budget.spec = Some(PodDisruptionBudgetSpec {
            selector: Some(support::build::labelled(&WEB)),
            max_unavailable: Some(IntOrString {
                int_val: allowed,
                ..IntOrString::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        });
        changes.push(budget.change());
    };
    let cases: [(&str, Make, &str, bool); 8] = [
        ("nothing", |_, _| (), "", true),
        (
            "a pod without a controller",
            |changes, _| changes.push(on(pod("bare", &[]), "a1").change()),
            "without a controller",
            true,
        ),
        (
            "the same, with leave",
            |changes, asked| {
                changes.push(on(pod("bare", &[]), "a1").change());
                asked.rules = Some(EvictionRules {
                    bare: true,
                    ..EvictionRules::default()
                });
            },
            "",
            true,
        ),
        (
            "a mark",
            |changes, asked| {
                changes.push(owned_by(on(pod("p", &[]), "a1"), "ReplicaSet", "r").change());
                asked.rules = Some(EvictionRules {
                    stay: vec![StayingPod {
                        name: "p".into(),
                        reason: "annotation karpenter.sh/do-not-disrupt".into(),
                        ..StayingPod::default()
                    }],
                    ..EvictionRules::default()
                });
            },
            "annotation karpenter.sh/do-not-disrupt",
            true,
        ),
        (
            "room",
            |changes, _| {
                let large = requesting(on(pod("large", &[]), "a1"), &[("cpu", "4")]);
                changes.push(owned_by(large, "ReplicaSet", "large").change());
                for node in ["b1", "c1"] {
                    let other = requesting(on(pod(node, &[]), node), &[("cpu", "1")]);
                    changes.push(owned_by(other, "ReplicaSet", "other").change());
                }
            },
            "2 Insufficient cpu, 1 node(s) were unschedulable",
            false,
        ),
        (
            "no node that it selects",
            |changes, _| {
                let own = support::build::selecting(on(pod("own", &[]), "a1"), &[("disk", "ssd")]);
                changes.push(owned_by(own, "ReplicaSet", "own").change());
            },
            "2 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable",
            true,
        ),
        (
            "its domain is full",
            |changes, _| {
                // Zone a keeps another node, which has no room: its domain does not go.
                let node = node("a2", &[(ZONE, "a")]);
                changes.push(having(node, &[("cpu", "4"), ("pods", "0")]).change());
                changes.extend(["a1", "b1", "c1"].map(|it| web(&format!("w-{it}"), it).change()));
            },
            "2 node(s) didn't match pod topology spread constraints, 1 Too many pods, 1 node(s) were unschedulable",
            false,
        ),
        (
            "a job and a pod of a DaemonSet",
            |changes, _| {
                changes.push(owned_by(on(pod("j", &[]), "a1"), "Job", "j").change());
                changes.push(owned_by(on(pod("d", &[]), "a1"), "DaemonSet", "d").change());
                changes.push(owned_by(on(pod("s", &[]), "a1"), "Node", "a1").change());
            },
            "",
            true,
        ),
    ];
    let server = Server::start().await;
    for (what, make, why, is_proven) in cases {
        let mut changes = zones(&["a", "b", "c"]);
        let mut asked = drain(&["a1"]);
        make(&mut changes, &mut asked);
        server.replace_all(changes).await;
        let plan = ask(&server, Question::Drain(asked)).await;
        let text = plan.blocked.first().map_or("", |it| &*it.text);
        assert_eq!((text, plan.optimal), (why, is_proven), "{what}: {plan:?}");
        assert_eq!(plan.nodes[0].emptied, why.is_empty(), "{what}");
    }
    // A pod that waits until its node is gone needs a budget that allows it.
    for (allowed, may_go) in [(1, true), (0, false)] {
        let mut changes = zones(&["a", "b", "c"]);
        changes.extend(["a1", "b1", "c1"].map(|it| web(&format!("w-{it}"), it).change()));
        budget(&mut changes, allowed);
        server.replace_all(changes).await;
        let plan = ask(&server, Question::Drain(drain(&["a1"]))).await;
        assert_eq!(!emptied(&plan).is_empty(), may_go, "{plan:?}");
        assert!(plan.moves.iter().all(|it| it.waits_for_node), "{plan:?}");
    }
}

/// A node whose pods all go with it stays, if a constraint would have fewer domains than it needs.
#[tokio::test]
async fn a_domain_that_is_needed_stays() {
    let server = Server::start().await;
    let mut changes = zones(&["a", "b", "c"]);
    for node in ["a1", "b1", "c1"] {
        let daemon = on(pod(&format!("d-{node}"), &WEB), node);
        changes.push(owned_by(daemon, "DaemonSet", "d").change());
    }
    for node in ["a1", "b1"] {
        let mut pod = web(&format!("w-{node}"), node);
        let spec = pod.spec.get_or_insert_default();
        spec.topology_spread_constraints[0].min_domains = Some(3);
        changes.push(pod.change());
    }
    server.replace_all(changes).await;
    let plan = ask(&server, Question::Drain(drain(&["c1"]))).await;
    assert_eq!(emptied(&plan), [""; 0], "{plan:?}");
    let why = "without it ReplicaSet/w0 would be less even over topology.kubernetes.io/zone";
    assert_eq!(plan.blocked[0].text, why, "{plan:?}");
}

/// The spread of a workload afterwards, and the pods that go with a node.
#[tokio::test]
async fn a_drain_tells_the_spread_afterwards() {
    let server = Server::start().await;
    let mut changes = zones(&["a", "b", "c"]);
    changes.extend(
        ["a1", "a1", "b1", "b1", "c1", "c1"]
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let pod = web(&format!("w{at}"), node);
                pod.change()
            }),
    );
    changes.push(owned_by(on(pod("d", &[]), "c1"), "DaemonSet", "d").change());
    server.replace_all(changes).await;
    let plan = ask(&server, Question::Drain(drain(&["c1"]))).await;
    // Two may not be on no node at a time.
    assert_eq!(emptied(&plan), [""; 0], "{plan:?}");
    let mut asked = drain(&["c1"]);
    asked.rules = Some(EvictionRules {
        max_unavailable: Some(2),
        ..EvictionRules::default()
    });
    let plan = ask(&server, Question::Drain(asked)).await;
    assert_eq!(emptied(&plan), ["c1"], "{plan:?}");
    assert_eq!(plan.with_node[0].pod, "d");
    let spread = |it: &[evenkeel::proto::v1::TopologySpread]| -> Vec<(String, i64)> {
        let domains = it[0].domains.iter();
        let mut counts: Vec<_> = domains
            .map(|it| (it.value.clone(), it.matching_pods))
            .collect();
        counts.sort();
        counts
    };
    let counted = |counts: &[(&str, i64)]| -> Vec<(String, i64)> {
        counts
            .iter()
            .map(|(zone, pods)| ((*zone).into(), *pods))
            .collect()
    };
    let web = &plan.workloads[0];
    assert_eq!(
        spread(&web.before),
        counted(&[("a", 2), ("b", 2), ("c", 2)])
    );
    assert_eq!(spread(&web.after), counted(&[("a", 3), ("b", 3)]));
    assert_eq!(web.move_count, 2);
}

/// The nodes that stay, and the bounds of the others.
#[tokio::test]
async fn spare_nodes_respect_marks() {
    let server = Server::start().await;
    let mut changes = zones(&["a", "b", "c", "d"]);
    let control = node("m1", &[("node-role.kubernetes.io/control-plane", "")]);
    changes.push(having(control, &[("cpu", "4"), ("pods", "9")]).change());
    let large = |name: &str, node: &str, cpu: &str| {
        let pod = requesting(on(pod(name, &[]), node), &[("cpu", cpu)]);
        owned_by(pod, "ReplicaSet", name).change()
    };
    changes.extend([
        large("x", "a1", "3"),
        large("y", "b1", "1"),
        large("z", "c1", "2"),
    ]);
    changes.push(on(pod("bare", &[]), "d1").change());
    server.replace_all(changes).await;
    let ask = |spare: NodeSpare| ask(&server, Question::Spare(spare));
    let most = NodeSpare {
        max: 9,
        ..NodeSpare::default()
    };
    // d1 has a pod that stays, and m1 runs the control plane.
    let plan = ask(most.clone()).await;
    assert_eq!(emptied(&plan), ["b1", "c1", "a1"], "{plan:?}");
    assert!(plan.optimal && plan.bound == 3, "{plan:?}");
    let kept = NodeSpare {
        stay: vec!["b1".into()],
        ..most.clone()
    };
    assert_eq!(emptied(&ask(kept).await), ["c1", "a1"]);
    let one = NodeSpare {
        max: 1,
        ..most.clone()
    };
    let plan = ask(one).await;
    assert_eq!(emptied(&plan), ["b1"]);
    assert_eq!(
        (plan.optimal, &*plan.bound_reason),
        (true, "as many were asked for")
    );
    let selected = |zone: &str| NodeSpare {
        selector: Some(support::build::labelled(&[(ZONE, zone)])),
        ..most.clone()
    };
    assert_eq!(emptied(&ask(selected("c")).await), ["c1"]);
    let plan = ask(selected("nope")).await;
    assert_eq!(plan.bound_reason, "there are no such nodes that may go");
    // A node of unknown room may take all pods, so room bounds nothing.
    server
        .update(
            "",
            vec![node("e1", &[]).change(), delete("Pod", "", "bare")],
        )
        .await;
    let plan = ask(most.clone()).await;
    assert_eq!((plan.nodes.len(), plan.bound), (4, 5), "{plan:?}");
}

/// A need of this many pods of a processor each, on nodes of four.
fn need(replicas: i32, zones: &[&str]) -> NodeNeed {
    NodeNeed {
        pods: vec![NeededPods {
            pod: Some(requesting(web("", ""), &[("cpu", "1")])),
            replicas,
        }],
        templates: vec![NodeTemplate {
            node: "a1".into(),
            name: "pool".into(),
            domains: vec![TopologyValues {
                topology_key: ZONE.into(),
                values: zones.iter().map(|zone| (*zone).into()).collect(),
            }],
            ..NodeTemplate::default()
        }],
        ..NodeNeed::default()
    }
}

/// New nodes by zone: fewest or cheapest, in domains without nodes, for pods that wait.
#[tokio::test]
async fn needed_nodes_are_named_with_their_domains() {
    let server = Server::start().await;
    server.replace_all(zones(&["a", "b"])).await;
    let of = |plan: &PlanNodesResponse| -> Vec<(String, usize)> {
        let new = plan.new_nodes.iter();
        new.map(|it| (it.domains[ZONE].clone(), it.names.len()))
            .collect()
    };
    let plan = ask(&server, Question::Need(need(8, &["a", "b", "c"]))).await;
    assert_eq!((of(&plan), plan.optimal), (vec![], true), "{plan:?}");
    // Each zone has room for four, and the third has no node yet.
    let plan = ask(&server, Question::Need(need(12, &["a", "b", "c"]))).await;
    assert_eq!(of(&plan), [("c".to_owned(), 1)], "{plan:?}");
    assert!(plan.optimal, "{plan:?}");
    assert!(plan.bound_reason.starts_with("room: 4 of w0"), "{plan:?}");
    // In zone a alone a node does not help: zone b would have too few.
    let plan = ask(&server, Question::Need(need(12, &["a"]))).await;
    assert_eq!(plan.unplaced[0].count, 3, "{plan:?}");
    let plan = ask(&server, Question::Need(need(12, &["a", "b"]))).await;
    assert_eq!(
        of(&plan),
        [("a".to_owned(), 1), ("b".to_owned(), 1)],
        "{plan:?}"
    );
    let tried = "every cheaper choice of nodes leaves pods over when all are placed jointly";
    assert_eq!(
        (plan.optimal, &*plan.bound_reason),
        (true, tried),
        "{plan:?}"
    );
    // Two small nodes for 1 each are cheaper than a large one for 3.
    let mut cheap = need(16, &["c"]);
    cheap.pods[0].pod = Some(requesting(
        owned_by(pod("", &WEB), "ReplicaSet", "w0"),
        &[("cpu", "1")],
    ));
    cheap.templates[0].domains.clear();
    let large = having(node("large", &[]), &[("cpu", "8"), ("pods", "99")]);
    for (price, wanted) in [(3, vec![("pool", 2)]), (1, vec![("large", 1)])] {
        let mut question = cheap.clone();
        question.templates.push(NodeTemplate {
            object: Some(large.clone()),
            price,
            ..NodeTemplate::default()
        });
        let plan = ask(&server, Question::Need(question)).await;
        let new = plan.new_nodes.iter();
        let new: Vec<_> = new.map(|it| (&*it.template, it.names.len())).collect();
        assert_eq!(new, wanted, "{plan:?}");
        assert!(plan.optimal, "{plan:?}");
    }
    // The pods of the snapshot that wait are found, and each new node runs the DaemonSet.
    let daemon = requesting(on(pod("d", &[]), "a1"), &[("cpu", "3")]);
    let mut changes = vec![owned_by(daemon, "DaemonSet", "d").change()];
    for number in 0..9 {
        let waits = requesting(web(&format!("w{number}"), ""), &[("cpu", "1")]);
        changes.push(waits.change());
    }
    server.update("", changes).await;
    let pending = NodeNeed {
        pods: vec![],
        pending: true,
        ..need(0, &["a", "b", "c"])
    };
    let plan = ask(&server, Question::Need(pending)).await;
    assert_eq!(
        of(&plan).iter().map(|it| it.1).sum::<usize>(),
        4,
        "{plan:?}"
    );
    assert_eq!(
        plan.placed.iter().map(|it| it.count).sum::<i64>(),
        9,
        "{plan:?}"
    );
    assert!(plan.placed.iter().all(|it| it.index == -1), "{plan:?}");
}

/// Each fault names its field, and an unknown node is told.
#[tokio::test]
async fn faults_name_their_fields() {
    let server = Server::start().await;
    server.replace_all(zones(&["a"])).await;
    let spare = Question::Spare(NodeSpare::default());
    let twice = Question::Drain(drain(&["a1", "a1"]));
    let mut like = need(0, &[]);
    like.templates[0].price = -1;
    let cases = [
        (None, "question: is required"),
        (
            Some(Question::Drain(drain(&[]))),
            "drain.nodes: is required",
        ),
        (Some(twice), "drain.nodes[1]: is in the list more than once"),
        (Some(spare), "spare.max: must be at least 1"),
        (
            Some(Question::Need(NodeNeed::default())),
            "need.pods: is required",
        ),
        (
            Some(Question::Need(like)),
            "need.pods[0].replicas: must be at least 1",
        ),
        (
            Some(Question::Drain(drain(&["nope"]))),
            "there is no node \"nope\"",
        ),
    ];
    for (question, said) in cases {
        let request = PlanNodesRequest {
            question,
            ..PlanNodesRequest::default()
        };
        let refused = server.client().plan_nodes(request).await.expect_err(said);
        assert!(refused.message().starts_with(said), "{}", refused.message());
    }
}

/// Disks, reservations and nominated pods count as in every other decision.
#[tokio::test]
async fn disks_and_reservations_count() {
    let server = Server::start().await;
    let volume = |zone: &str| {
        json!([
            {"persistentVolume": {
                "metadata": {"name": "v"},
                "spec": {"accessModes": ["ReadWriteOnce"], "claimRef": {"name": "c"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": ZONE, "operator": "In", "values": [zone]}]}]}}},
                "status": {"phase": "Bound"},
            }},
            {"persistentVolumeClaim": {
                "metadata": {"name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]},
            }},
        ])
    };
    // A StatefulSet makes its pod with the same claim, whose volume stays in zone a.
    let stays = "2 node(s) didn't match PersistentVolume's node affinity";
    for (others, why) in [
        (vec!["a1", "b1", "c1"], stays),
        (vec!["a1", "a2", "b1"], ""),
    ] {
        let mut changes: Vec<Change> = Vec::new();
        for name in others {
            let node = node(name, &[(ZONE, &name[..1])]);
            changes.push(having(node, &[("cpu", "4"), ("pods", "9")]).change());
        }
        let volume: Vec<Change> = serde_json::from_value(volume("a")).expect("changes");
        changes.extend(volume);
        let db = support::build::with_claim(on(pod("db-0", &[]), "a1"), "c");
        changes.push(owned_by(db, "StatefulSet", "db").change());
        server.replace_all(changes).await;
        let plan = ask(&server, Question::Drain(drain(&["a1"]))).await;
        let text = plan.blocked.first().map_or("", |it| &*it.text);
        assert!(
            text.starts_with(why) && text.is_empty() == why.is_empty(),
            "{plan:?}"
        );
        let to = plan.moves.first().map_or("a2", |it| &*it.to);
        assert_eq!(to, "a2");
    }
    // A node that is reserved for a pod is not empty.
    server.replace_all(zones(&["a"])).await;
    let reserve = PlaceRequest {
        reserve: Some(Reservation {
            owner: "me".into(),
            ttl: Some(Duration::from_secs(600).into()),
        }),
        ..place_of(pod("next", &[]), 1)
    };
    server.place(reserve).await;
    let plan = ask(&server, Question::Drain(drain(&["a1"]))).await;
    assert_eq!(
        plan.blocked[0].text, "reserved for a pod to come",
        "{plan:?}"
    );
    let spare = NodeSpare {
        max: 1,
        ..NodeSpare::default()
    };
    assert_eq!(
        emptied(&ask(&server, Question::Spare(spare)).await),
        [""; 0]
    );
    // A pod that is nominated to a node takes its room.
    let mut changes = zones(&["a", "b"]);
    let waits = requesting(pod("waits", &[]), &[("cpu", "4")]);
    changes.push(nominated(waits, "b1", 10).change());
    let small = requesting(on(pod("small", &[]), "a1"), &[("cpu", "1")]);
    changes.push(owned_by(small, "ReplicaSet", "small").change());
    server.replace_all(changes).await;
    let plan = ask(&server, Question::Drain(drain(&["a1"]))).await;
    let small = plan.blocked.iter().find(|it| it.pod == "small");
    let why = small.map_or("", |it| &*it.text);
    assert!(why.starts_with("1 Insufficient cpu"), "{plan:?}");
}
