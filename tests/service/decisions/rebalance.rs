//! Plans of Rebalance: each move is accepted after those before it, no plan with fewer moves does
//! as much, and after a plan nothing is left to plan.

use std::collections::HashSet;

use crate::decisions::worlds::{Constraint, KEYS, Nodes, by_node, cases, running};
use evenkeel::proto::v1::{Change, NodeChecks, Pod, RebalanceRequest, RebalanceResponse};
use fastrand::Rng;
use support::build::{having, on, spread};
use support::model::{self, Stored, delete};
use support::recount::Cluster;
use support::server::Server;

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
    nodes: Nodes,
    room: Vec<usize>,
    constraints: Vec<Constraint>,
    /// The node of each pod, by workload.
    pods: Vec<Vec<usize>>,
}

impl Case {
    fn random(rng: &mut Rng, keys: &[&'static str], workloads: usize) -> Self {
        let nodes = Nodes::random(rng, 6);
        let mut room: Vec<usize> = (0..nodes.count()).map(|_| rng.usize(1..5)).collect();
        let mut pods = vec![Vec::new(); workloads];
        for own in &mut pods {
            for _ in 0..rng.usize(1..6) {
                own.push(rng.usize(..nodes.count()).min(rng.usize(..nodes.count())));
            }
        }
        let taken = by_node(nodes.count(), pods.iter().flatten().copied());
        room.iter_mut()
            .zip(taken)
            .for_each(|(room, taken)| *room = taken.max(*room));
        Self {
            constraints: Constraint::hard(rng, keys),
            nodes,
            room,
            pods,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let nodes = self.nodes.objects().zip(&self.room);
        let nodes = nodes.map(|(node, room)| having(node, &[("pods", &room.to_string())]).change());
        let mut changes: Vec<Change> = nodes.collect();
        for (app, own) in ["web", "db"].iter().zip(&self.pods) {
            let constraints = self
                .constraints
                .iter()
                .map(|it| it.counting(&[("app", app)]));
            let constraints: Vec<_> = constraints.collect();
            for (index, at) in own.iter().enumerate() {
                let pod = running(&format!("{app}{index}"), app, *at);
                changes.push(spread(pod, constraints.clone()).change());
            }
        }
        changes
    }

    fn excess(&self, on: &[usize]) -> i64 {
        let all = self.constraints.iter().enumerate();
        let excess = all.map(|(of, constraint)| {
            let skew = self.nodes.skew(&self.constraints, of, on);
            (skew - i64::from(constraint.max_skew)).max(0)
        });
        excess.sum()
    }

    /// The fewest moves of pods that make the first workload even, found by trying all; `None` if
    /// that takes more than `most`.
    fn fewest(&self, most: usize) -> Option<usize> {
        let all = 0..self.nodes.count();
        let others = by_node(self.nodes.count(), self.pods[1..].iter().flatten().copied());
        let first = by_node(self.nodes.count(), self.pods[0].iter().copied());
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
                    for to in all.clone().filter(|to| *to != from) {
                        let has_room = left[to] + others[to] < self.room[to];
                        if has_room && self.nodes.admits(&self.constraints, &left, to) {
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
    let mut cluster = model::cluster(&changes);
    server.replace_all(changes).await;
    let answer = server.rebalance(about("")).await;
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
    let again = server.rebalance(about("")).await;
    assert_eq!(moves(&again), [], "after {answer:?} of {case:?}");
    let left = |answer: &RebalanceResponse| {
        let all = answer.workloads.iter().flat_map(|it| &it.after);
        all.map(|after| after.excess).sum::<i64>()
    };
    assert_eq!(left(&answer), left(&again), "{answer:?} of {case:?}");
    answer
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
