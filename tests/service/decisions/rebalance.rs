//! Plans of Rebalance: each move is accepted after those before it, no plan with fewer moves does
//! as much, and after a plan nothing is left to plan.

use std::collections::{BTreeMap, HashSet};

use crate::decisions::joint::random_nodes;
use crate::decisions::removals::{RACK, owned};
use evenkeel::proto::v1::{Change, NodeChecks, Pod, RebalanceRequest, RebalanceResponse};
use fastrand::Rng;
use support::build::{HOSTNAME, ZONE, hard, having, node, on, pod, spread};
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
