//! Plans of Rebalance: each move is accepted after those before it, no plan with fewer moves does
//! as much, and after a plan nothing is left to plan.

use std::collections::{BTreeMap, HashSet};

use crate::decisions::joint::random_nodes;
use crate::decisions::removals::{RACK, WEB, owned};
use evenkeel::proto::v1::{
    Change, IntOrString, NodeChecks, Pod, PodDisruptionBudget, PodDisruptionBudgetSpec,
    RebalanceRequest, RebalanceResponse, StayingPod, TopologySpreadConstraint, move_blocker,
};
use fastrand::Rng;
use serde_json::json;
use support::build::{
    HOSTNAME, ZONE, cordoned, hard, having, labelled, node, on, pod, soft, spread,
};
use support::model::{self, Stored, delete};
use support::recount::Cluster;
use support::server::Server;

/// Asks the server for a plan.
pub(crate) async fn ask(server: &Server, request: RebalanceRequest) -> RebalanceResponse {
    let answer = server.client().rebalance(request).await;
    answer.expect("a valid question").into_inner()
}

pub(crate) fn about(snapshot: &str) -> RebalanceRequest {
    RebalanceRequest {
        snapshot: snapshot.into(),
        max_domains: Some(0),
        ..RebalanceRequest::default()
    }
}

/// The moves: pod, from and to.
pub(crate) fn moves(answer: &RebalanceResponse) -> Vec<(&str, &str, &str)> {
    let moves = answer.moves.iter();
    moves.map(|it| (&*it.pod, &*it.from, &*it.to)).collect()
}

/// The pod that replaces `old`, under another name and on another node.
fn successor(old: &Pod, number: usize, to: &str) -> Pod {
    let mut pod = on(old.clone(), to);
    pod.metadata.get_or_insert_default().name = format!("new{number}");
    pod
}

/// Makes the moves of a plan in a recount's cluster, which must accept each of them.
fn replay(
    cluster: &mut Cluster,
    answer: &RebalanceResponse,
    say: &dyn std::fmt::Debug,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (number, step) in answer.moves.iter().enumerate() {
        let name = match step.successor_of {
            0 => step.pod.clone(),
            earlier => names[earlier as usize - 1].clone(),
        };
        let own = |pod: &&Pod| pod.metadata.as_ref().is_some_and(|it| it.name == name);
        let old = cluster
            .pods
            .iter()
            .find(own)
            .expect("the pod is there")
            .clone();
        assert_eq!(
            old.spec.as_ref().map(|it| &it.node_name),
            Some(&step.from),
            "{say:?}"
        );
        let gone = delete("Pod", "", &name);
        model::apply(cluster, &gone);
        changes.push(gone);
        let incoming = on(old.clone(), "");
        let feasible = cluster
            .filter(&incoming, None, NodeChecks::Unspecified)
            .feasible();
        assert!(
            feasible.contains(&step.to),
            "move {number}: {answer:?} of {say:?}"
        );
        let new = successor(&old, number + changes.len() * 1000, &step.to);
        names.push(new.metadata.as_ref().expect("metadata").name.clone());
        model::apply(cluster, &new.clone().change());
        changes.push(new.change());
    }
    changes
}

/// A small cluster with one or two workloads, which share the room of its nodes.
#[derive(Debug, Clone)]
struct Case {
    nodes: Vec<BTreeMap<&'static str, String>>,
    room: Vec<usize>,
    constraints: Vec<(&'static str, i32)>,
    /// The node of each pod, by workload.
    pods: Vec<Vec<usize>>,
}

const WORKLOADS: [&str; 2] = ["web", "db"];

impl Case {
    fn random(rng: &mut Rng, keys: &[&'static str], workloads: usize) -> Self {
        let nodes = random_nodes(rng, 6);
        let mut room: Vec<usize> = nodes.iter().map(|_| rng.usize(1..5)).collect();
        let mut pods = vec![Vec::new(); workloads];
        for own in &mut pods {
            for _ in 0..rng.usize(1..6) {
                let at = rng.usize(..nodes.len()).min(rng.usize(..nodes.len()));
                own.push(at);
            }
        }
        for (at, room) in room.iter_mut().enumerate() {
            *room = (*room).max(pods.iter().flatten().filter(|it| **it == at).count());
        }
        Self {
            constraints: keys.iter().map(|key| (*key, rng.i32(1..3))).collect(),
            nodes,
            room,
            pods,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let nodes = self.nodes.iter().enumerate().map(|(index, labels)| {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let room = self.room[index].to_string();
            having(node(&format!("n{index}"), &labels), &[("pods", &room)]).change()
        });
        let mut changes: Vec<Change> = nodes.collect();
        for (app, own) in WORKLOADS.iter().zip(&self.pods) {
            let labels = [("app", *app)];
            let constraints = self.constraints.iter();
            let constraints = constraints.map(|(key, skew)| hard(*skew, key, &labels));
            let constraints: Vec<_> = constraints.collect();
            for (index, at) in own.iter().enumerate() {
                let mut pod = owned(on(
                    pod(&format!("{app}{index}"), &labels),
                    &format!("n{at}"),
                ));
                pod.metadata.get_or_insert_default().owner_references[0].name = (*app).into();
                changes.push(spread(pod, constraints.clone()).change());
            }
        }
        changes
    }

    /// Returns whether a node has all keys. A node without one takes no pod and is in no domain.
    fn is_keyed(&self, node: usize) -> bool {
        let mut all = self.constraints.iter();
        all.all(|(key, _)| self.nodes[node].contains_key(key))
    }

    /// The number of pods that count in each domain, by constraint.
    fn counts(&self, on: &[usize]) -> Vec<BTreeMap<&String, i64>> {
        let keyed = || (0..self.nodes.len()).filter(|node| self.is_keyed(*node));
        let constraints = self.constraints.iter().map(|(key, _)| {
            let mut counts: BTreeMap<&String, i64> = BTreeMap::new();
            for at in keyed() {
                *counts.entry(&self.nodes[at][key]).or_default() += on[at] as i64;
            }
            counts
        });
        constraints.collect()
    }

    fn excess(&self, on: &[usize]) -> i64 {
        let counts = self.counts(on);
        let excess = counts
            .iter()
            .zip(&self.constraints)
            .map(|(counts, (_, max_skew))| {
                let least = counts.values().min().copied().unwrap_or(0);
                let most = counts.values().max().copied().unwrap_or(0);
                (most - least - i64::from(*max_skew)).max(0)
            });
        excess.sum()
    }

    /// The fewest moves of pods that make the first workload even, found by trying all; `None` if
    /// that takes more than `most`.
    fn fewest(&self, most: usize) -> Option<usize> {
        let count = |own: &Vec<usize>, at: usize| own.iter().filter(|it| **it == at).count();
        let all = 0..self.nodes.len();
        let others: Vec<usize> = all
            .clone()
            .map(|at| self.pods[1..].iter().map(|own| count(own, at)).sum())
            .collect();
        let first: Vec<usize> = all.clone().map(|at| count(&self.pods[0], at)).collect();
        let mut reached = HashSet::from([first]);
        let mut seen = reached.clone();
        for moves in 0..=most {
            if reached.iter().any(|on| self.excess(on) == 0) {
                return Some(moves);
            }
            let mut next = HashSet::new();
            for before in &reached {
                for from in all.clone().filter(|from| before[*from] > 0) {
                    let mut left = before.clone();
                    left[from] -= 1;
                    let counts = self.counts(&left);
                    for to in all.clone().filter(|to| *to != from && self.is_keyed(*to)) {
                        let is_even = counts.iter().zip(&self.constraints).all(
                            |(counts, (key, max_skew))| {
                                let least = counts.values().min().expect("the node's own");
                                counts[&self.nodes[to][key]] + 1 - least <= i64::from(*max_skew)
                            },
                        );
                        if is_even && left[to] + others[to] < self.room[to] {
                            let mut after = left.clone();
                            after[to] += 1;
                            if seen.insert(after.clone()) {
                                next.insert(after);
                            }
                        }
                    }
                }
            }
            reached = next;
        }
        None
    }
}

/// Checks all that must be true of every plan, and returns the plan.
async fn check(server: &Server, case: &Case) -> RebalanceResponse {
    let changes = case.changes();
    let mut cluster = Cluster::default();
    for change in &changes {
        model::apply(&mut cluster, change);
    }
    server.replace_all(changes).await;
    let answer = ask(server, about("")).await;
    for workload in &answer.workloads {
        let both = workload.before.iter().zip(&workload.after);
        for (before, after) in both {
            assert!(after.excess <= before.excess, "{answer:?} of {case:?}");
        }
        let is_left = workload.after.iter().any(|after| after.excess > 0);
        assert_eq!(
            is_left,
            !workload.blockers.is_empty(),
            "{answer:?} of {case:?}"
        );
    }
    let steps = replay(&mut cluster, &answer, case);
    for step in steps {
        server.update("", vec![step]).await;
    }
    let again = ask(server, about("")).await;
    assert_eq!(moves(&again), [], "after {answer:?} of {case:?}");
    let left = |answer: &RebalanceResponse| {
        let all = answer.workloads.iter().flat_map(|it| &it.after);
        all.map(|after| after.excess).sum::<i64>()
    };
    assert_eq!(left(&answer), left(&again), "{answer:?} of {case:?}");
    answer
}

/// Keys that contain one another, and two that cross.
pub(crate) const KEYS: [&[&str]; 6] = [
    &[ZONE],
    &[HOSTNAME],
    &[ZONE, HOSTNAME],
    &[ZONE, RACK],
    &[RACK, HOSTNAME],
    &[ZONE, RACK, HOSTNAME],
];

/// Returns the number of random cases to try.
pub(crate) fn cases() -> u64 {
    let said = std::env::var("CASES").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(600)
}

/// Of all sequences of moves, tried one by one, none shorter makes a workload even.
#[tokio::test]
async fn no_plan_has_fewer_moves() {
    let server = Server::start().await;
    let (mut violated, mut even, mut optimal) = (0, 0, 0);
    for seed in 0..cases() {
        let mut rng = Rng::with_seed(seed);
        let case = Case::random(&mut rng, KEYS[seed as usize % KEYS.len()], 1);
        let answer = check(&server, &case).await;
        let planned = answer.moves.len();
        let is_even = answer
            .workloads
            .iter()
            .flat_map(|it| &it.after)
            .all(|it| it.excess == 0);
        match is_even {
            true => {
                let fewest = case.fewest(planned);
                assert!(fewest.is_some(), "{answer:?} of {case:?}");
                assert!(
                    !answer.optimal || fewest == Some(planned),
                    "{fewest:?}: {answer:?} of {case:?}"
                );
                optimal += u64::from(fewest == Some(planned));
                even += 1;
            }
            false => assert_eq!(case.fewest(5), None, "{answer:?} of {case:?}"),
        }
        violated += u64::from(!answer.workloads.is_empty());
    }
    println!(
        "{violated} violated, {even} even after the plan, {optimal} of these with the fewest moves"
    );
    assert!(violated * 3 > cases(), "{violated}");
    assert_eq!(optimal, even);
}

/// Two workloads that share the room of nodes.
#[tokio::test]
async fn workloads_share_room() {
    let server = Server::start().await;
    let mut planned = 0;
    for seed in 0..cases() {
        let mut rng = Rng::with_seed(1_000_000 + seed);
        let case = Case::random(&mut rng, KEYS[seed as usize % KEYS.len()], 2);
        planned += check(&server, &case).await.moves.len() as u64;
    }
    assert!(planned > cases() / 2, "{planned}");
}

/// A budget of the pods with these labels that allows this many to be unavailable.
fn budget(name: &str, max_unavailable: i32, labels: &[(&str, &str)]) -> Change {
    let budget = PodDisruptionBudget {
        metadata: Some(support::build::meta(name, &[])),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString {
                int_val: max_unavailable,
                ..IntOrString::default()
            }),
            selector: Some(labelled(labels)),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    };
    budget.change()
}

/// Three zones of one node, with four pods of a workload in the first.
fn zones() -> Vec<Change> {
    let mut changes: Vec<Change> = ["a", "b", "c"]
        .map(|zone| node(&format!("{zone}1"), &[(ZONE, zone)]).change())
        .into();
    let pods = (0..4).map(|index| {
        let pod = owned(on(pod(&format!("p{index}"), &WEB), "a1"));
        spread(pod, vec![hard(1, ZONE, &WEB)]).change()
    });
    changes.extend(pods);
    changes
}

/// Cases in which pods cannot move, with the text of the blocker in the answer.
#[tokio::test]
async fn what_is_in_the_way() {
    type Ask = fn(&mut RebalanceRequest);
    let nothing: Ask = |_| ();
    let many = (0..12).map(|number| budget(&format!("b{number:02}"), 1, &WEB));
    let cases: [(&str, Vec<Change>, Ask, usize, &str); 9] = [
        (
            "many budgets",
            many.collect(),
            nothing,
            0,
            "b07, b08, b09 and 2 more",
        ),
        ("nothing", vec![], nothing, 2, ""),
        (
            "a budget",
            vec![budget("b", 0, &WEB)],
            nothing,
            0,
            "PodDisruptionBudget b allows no eviction",
        ),
        (
            "a budget that allows one",
            vec![budget("b", 1, &WEB)],
            nothing,
            2,
            "",
        ),
        (
            "two budgets",
            vec![budget("b", 1, &WEB), budget("c", 1, &WEB)],
            nothing,
            0,
            "several PodDisruptionBudgets: b, c",
        ),
        (
            "no pod may be unavailable",
            vec![],
            |it| it.max_unavailable = Some(0),
            0,
            "may be unavailable",
        ),
        (
            "one move",
            vec![],
            |it| it.max_moves = 1,
            1,
            "no more moves are allowed",
        ),
        (
            "one move of a workload",
            vec![],
            |it| it.max_moves_per_workload = 1,
            1,
            "no more moves",
        ),
        (
            "pods that stay",
            vec![],
            |it| it.stay_selector = Some(labelled(&WEB)),
            0,
            "selector of pods that stay",
        ),
    ];
    let server = Server::start().await;
    for (name, more, change, planned, blocker) in cases {
        let mut changes = zones();
        changes.extend(more);
        server.replace_all(changes).await;
        let mut request = about("");
        change(&mut request);
        let answer = ask(&server, request).await;
        assert_eq!(answer.moves.len(), planned, "{name}: {answer:?}");
        let blockers: Vec<&str> = answer.workloads[0]
            .blockers
            .iter()
            .map(|it| &*it.text)
            .collect();
        let is_told = blockers.iter().any(|text| text.contains(blocker));
        assert!(is_told || blocker.is_empty(), "{name}: {blockers:?}");
    }
}

/// Pods may have constraints that no scheduler accepts. A plan says that it did not judge them.
#[tokio::test]
async fn pods_that_cannot_be_judged_are_told() {
    let server = Server::start().await;
    let odd = web_on(&["a1", "a1", "a1"], &[hard(0, ZONE, &WEB)]);
    let nodes = nodes_in_zones(&["a1", "b1"]);
    server.replace_all([nodes, odd].concat()).await;
    let answer = ask(&server, about("")).await;
    assert_eq!(moves(&answer), []);
    let [web] = &answer.workloads[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (&*web.name, web.move_count, web.blockers.len()),
        ("web", 0, 0)
    );
    assert!(web.fault.contains("maxSkew"), "{}", web.fault);
}

/// Pods of the workload `web` on these nodes, with these constraints.
fn web_on(nodes: &[&str], constraints: &[TopologySpreadConstraint]) -> Vec<Change> {
    crate::decisions::removals::web(nodes, constraints)
}

/// Nodes, which are called by their zone and a number.
fn nodes_in_zones(names: &[&str]) -> Vec<Change> {
    let node = |name: &&str| node(name, &[(ZONE, &name[..1]), (HOSTNAME, name)]).change();
    names.iter().map(node).collect()
}

/// descheduler#1918: five nodes in zone a, two in each other. The zones are as even as they can be,
/// so hosts of zone a stay empty while others have two pods. Evictions for the hosts alone would
/// never end, so nothing is planned.
#[tokio::test]
async fn descheduler_1918_hosts_that_zones_leave_empty() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1", "c2"]);
    let constraints = [hard(1, ZONE, &WEB), hard(1, HOSTNAME, &WEB)];
    let pods = ["a1", "a2", "a3", "b1", "b1", "b2", "c1", "c1", "c2"];
    changes.extend(web_on(&pods, &constraints));
    server.replace_all(changes).await;
    let answer = ask(&server, about("")).await;
    assert_eq!(moves(&answer), [], "{answer:?}");
    let after = &answer.workloads[0].after;
    assert_eq!(after.iter().map(|it| it.excess).collect::<Vec<_>>(), [0, 1]);
    assert!(!answer.workloads[0].blockers.is_empty());
}

/// descheduler#1219: zones and hosts are soft. Judged alone, each constraint would have pods
/// evicted that the other constraint wants where they are; judged together, one move is enough.
#[tokio::test]
async fn descheduler_1219_constraints_are_judged_together() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a1", "a2", "b1", "b2"]);
    let constraints = [soft(1, ZONE, &WEB), soft(1, HOSTNAME, &WEB)];
    changes.extend(web_on(&["a1", "a1", "a2", "b1"], &constraints));
    server.replace_all(changes).await;
    // Soft constraints are left alone unless they are asked for.
    assert_eq!(moves(&ask(&server, about("")).await), []);
    let request = RebalanceRequest {
        soft: true,
        ..about("")
    };
    let answer = ask(&server, request.clone()).await;
    assert_eq!(moves(&answer), [("p0", "a1", "b2")], "{answer:?}");
    assert!(answer.optimal);
    server.update("", vec![delete("Pod", "", "p0")]).await;
    server.update("", web_on(&["b2"], &constraints)).await;
    assert_eq!(moves(&ask(&server, request).await), []);
}

/// descheduler#1032: the nodes that would have to take the pods have no room. No pod is evicted
/// only to come back to its node, and the answer says why.
#[tokio::test]
async fn descheduler_1032_nothing_is_evicted_that_fits_nowhere_else() {
    let server = Server::start().await;
    let mut changes: Vec<Change> = ["a1", "b1", "c1"]
        .map(|name| {
            let room = if name == "a1" { "9" } else { "1" };
            let labels = [(ZONE, &name[..1])];
            having(node(name, &labels), &[("pods", room)]).change()
        })
        .into();
    changes.extend(web_on(
        &["a1", "a1", "a1", "a1", "b1"],
        &[hard(1, ZONE, &WEB)],
    ));
    changes.push(on(pod("other", &[]), "c1").change());
    server.replace_all(changes).await;
    let answer = ask(&server, about("")).await;
    assert_eq!(moves(&answer), [], "{answer:?}");
    let blockers = answer.workloads[0].blockers.iter();
    let blockers: Vec<_> = blockers
        .map(|it| (it.kind(), &*it.domain, &*it.text))
        .collect();
    let full = |zone| (move_blocker::Kind::Room, zone, "Too many pods");
    assert_eq!(blockers, [full("b"), full("c")]);
}

/// descheduler#835: the only host below the average takes no pod. A host that has enough already
/// is no reason to evict, because the next pod would be one too many there.
#[tokio::test]
async fn descheduler_835_a_balanced_host_is_no_place_to_go() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a1", "b1"]);
    let empty = node("c1", &[(ZONE, "c"), (HOSTNAME, "c1")]);
    changes.push(cordoned(empty).change());
    let hosts = ["a1", "a1", "a1", "b1", "b1"];
    changes.extend(web_on(&hosts, &[soft(1, HOSTNAME, &WEB)]));
    server.replace_all(changes).await;
    let request = RebalanceRequest {
        soft: true,
        ..about("")
    };
    let answer = ask(&server, request).await;
    assert_eq!(moves(&answer), [], "{answer:?}");
    let blockers = answer.workloads[0].blockers.iter();
    let blockers: Vec<_> = blockers.map(|it| (it.kind(), &*it.domain)).collect();
    assert_eq!(blockers, [(move_blocker::Kind::Node, "c1")]);
}

/// kubernetes#98215 and #105661: a rollout of a Deployment counted the pods that it removed, so its
/// five replicas end up as 3, 2 and 0. One move makes them even.
#[tokio::test]
async fn kubernetes_98215_a_rollout_that_ended_uneven() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a1", "b1", "c1"]);
    let constraints = [hard(1, HOSTNAME, &WEB)];
    changes.extend(web_on(&["a1", "a1", "a1", "b1", "b1"], &constraints));
    server.replace_all(changes).await;
    let answer = ask(&server, about("")).await;
    assert_eq!(moves(&answer), [("p0", "a1", "c1")], "{answer:?}");
    server.update("", vec![delete("Pod", "", "p0")]).await;
    server.update("", web_on(&["c1"], &constraints)).await;
    assert_eq!(moves(&ask(&server, about("")).await), []);
}

/// kubernetes#134810: several Deployments of two replicas were rolled out at the same time, and some
/// have both in one zone. One plan has a move for each of these, and none for the others.
#[tokio::test]
async fn kubernetes_134810_several_rollouts_at_once() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a1", "b1"]);
    for (name, hosts) in [
        ("web", ["a1", "a1"]),
        ("db", ["a1", "b1"]),
        ("api", ["b1", "b1"]),
    ] {
        let labels = [("app", name)];
        for (number, host) in hosts.into_iter().enumerate() {
            let mut pod = owned(on(pod(&format!("{name}-{number}"), &labels), host));
            let metadata = pod.metadata.get_or_insert_default();
            metadata.owner_references[0].name = name.into();
            changes.push(spread(pod, vec![hard(1, ZONE, &labels)]).change());
        }
    }
    server.replace_all(changes).await;
    let answer = ask(&server, about("")).await;
    let mut planned = moves(&answer);
    planned.sort_unstable();
    let expected = [("api-0", "b1", "a1"), ("web-0", "a1", "b1")];
    assert_eq!(planned, expected, "{answer:?}");
}

/// Workloads without a constraint are left alone, unless a topology key is given.
#[tokio::test]
async fn a_key_makes_workloads_even_that_have_no_constraint() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a1", "b1"]);
    changes.extend(web_on(&["a1", "a1", "a1"], &[]));
    server.replace_all(changes).await;
    assert_eq!(moves(&ask(&server, about("")).await), []);
    let request = RebalanceRequest {
        topology_key: ZONE.into(),
        ..about("")
    };
    let answer = ask(&server, request).await;
    assert_eq!(moves(&answer), [("p0", "a1", "b1")], "{answer:?}");
}

/// Pods that never move, though the zones are uneven.
#[tokio::test]
async fn what_never_moves() {
    let server = Server::start().await;
    type Alter = fn(&mut Pod);
    let cases: [(&str, Alter); 3] = [
        ("of a DaemonSet", |pod| {
            pod.metadata.get_or_insert_default().owner_references[0].kind = "DaemonSet".into();
            let constraints = &mut pod.spec.get_or_insert_default().topology_spread_constraints;
            // With Honor each would count its own node, and nothing would be uneven.
            constraints[0].node_affinity_policy = Some("Ignore".into());
        }),
        ("without a controller", |pod| {
            pod.metadata
                .get_or_insert_default()
                .owner_references
                .clear();
        }),
        ("stays by name", |_| ()),
    ];
    for (why, change) in cases {
        let mut changes = nodes_in_zones(&["a1", "b1", "c1"]);
        let pods = (0..3).map(|at| {
            let mut pod = spread(
                owned(on(pod(&format!("p{at}"), &WEB), "a1")),
                vec![hard(1, ZONE, &WEB)],
            );
            change(&mut pod);
            pod.change()
        });
        changes.extend(pods);
        server.replace_all(changes).await;
        let stay = (0..3).map(|at| StayingPod {
            name: format!("p{at}"),
            reason: why.into(),
            ..StayingPod::default()
        });
        let mut request = about("");
        if why == "stays by name" {
            request.stay = stay.collect();
        }
        let answer = ask(&server, request.clone()).await;
        assert_eq!(moves(&answer), [], "{why}");
        let told = answer.workloads[0]
            .blockers
            .iter()
            .any(|it| it.text == why && it.count == 3);
        assert!(told, "{why}: {answer:?}");
        if why == "without a controller" {
            request.bare = true;
            assert_eq!(ask(&server, request).await.moves.len(), 2);
        }
    }
}

/// Virtual machines of KubeVirt: each pod has a controller of its own, and one selector counts all.
#[tokio::test]
async fn workloads_of_one_pod_are_even_together() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a", "b", "c"]);
    changes.extend((0..6).map(|index| {
        let mut pod = owned(on(pod(&format!("vm{index}"), &WEB), "a"));
        let owner = &mut pod.metadata.get_or_insert_default().owner_references[0];
        (owner.kind, owner.name) = ("VirtualMachineInstance".into(), format!("vm{index}"));
        spread(pod, vec![hard(1, ZONE, &WEB)]).change()
    }));
    server.update("", changes).await;
    let answer = ask(&server, about("")).await;
    assert_eq!(answer.moves.len(), 4, "{answer:?}");
    for workload in &answer.workloads {
        assert!(workload.blockers.is_empty(), "{workload:?}");
        assert_eq!(workload.after[0].excess, 0, "{workload:?}");
    }
}

/// A pod is not sent where its volume cannot be reached.
#[tokio::test]
async fn pods_stay_with_their_disks() {
    let server = Server::start().await;
    let mut changes = nodes_in_zones(&["a", "b", "c"]);
    changes.push(object(
        json!({"storageClass": {"metadata": {"name": "fast"},
        "provisioner": "disk.example.com"}}),
    ));
    for index in 0..3 {
        let zone = if index == 0 { "b" } else { "a" };
        let claim = format!("data-web-{index}");
        changes.push(object(json!({"persistentVolume": {"metadata": {"name": claim},
            "spec": {"storageClassName": "fast", "claimRef": {"namespace": "default", "name": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": ZONE, "operator": "In", "values": [zone]}]}]}}}}})));
        changes.push(object(
            json!({"persistentVolumeClaim": {"metadata": {"name": claim,
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"storageClassName": "fast", "volumeName": claim}}}),
        ));
        let mut pod = spread(
            owned(on(pod(&format!("web-{index}"), &WEB), "a")),
            vec![hard(1, ZONE, &WEB)],
        );
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
        let volume = serde_json::from_value(volume).expect("a volume");
        pod.spec.get_or_insert_default().volumes.push(volume);
        changes.push(pod.change());
    }
    server.update("", changes).await;
    let answer = ask(&server, about("")).await;
    assert_eq!(moves(&answer), [("web-0", "a", "b")]);
    let blockers = &answer.workloads[0].blockers;
    let text = "node(s) didn't match PersistentVolume's node affinity";
    assert!(
        blockers
            .iter()
            .any(|it| it.domain == "c" && it.text == text),
        "{blockers:?}"
    );
}

fn object(change: serde_json::Value) -> Change {
    serde_json::from_value(change).expect("an object")
}
