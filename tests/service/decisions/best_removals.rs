//! The pods that RankRemovals chooses: of all choices, tried one by one, none leaves the other pods
//! spread better. The deletion order of a ReplicaSet decides between equally good choices.

use std::collections::BTreeMap;

use crate::decisions::worlds::{Constraint, KEYS, Nodes, RACK, WEB, by_node, number, running};
use evenkeel::proto::v1::{
    Change, DefaultConstraints, RankRemovalsRequest, RankRemovalsResponse, TopologySpread,
    WorkloadName,
};
use fastrand::Rng;
use prost::Message;
use support::build::{HOSTNAME, ZONE, spread};
use support::model::Stored;
use support::server::Server;

fn request(snapshot: &str, count: i32) -> RankRemovalsRequest {
    RankRemovalsRequest {
        snapshot: snapshot.into(),
        workload: Some(WorkloadName {
            kind: "ReplicaSet".into(),
            name: "web".into(),
            selector: None,
        }),
        count,
        max_domains: Some(0),
        ..RankRemovalsRequest::default()
    }
}

/// A small cluster and the constraints of a workload.
#[derive(Debug)]
struct Case {
    nodes: Nodes,
    /// The node of each pod of the workload.
    pods: Vec<usize>,
    /// The node of each other pod that the constraints count.
    others: Vec<usize>,
    constraints: Vec<Constraint>,
    count: usize,
}

impl Case {
    fn random(rng: &mut Rng, keys: &[&'static str]) -> Self {
        let nodes = Nodes::random(rng, 7);
        let pods = rng.usize(1..10);
        let constraint = |key: &&'static str| Constraint {
            key,
            is_hard: rng.bool(),
            max_skew: rng.i32(1..4),
        };
        Self {
            constraints: keys.iter().map(constraint).collect(),
            pods: nodes.draw(rng, pods),
            others: {
                let others = rng.usize(..3);
                nodes.draw(rng, others)
            },
            count: rng.usize(1..=pods),
            nodes,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let constraints = self.constraints.iter().map(|it| it.counting(&WEB));
        let constraints: Vec<_> = constraints.collect();
        let pods = self.pods.iter().enumerate().map(|(index, node)| {
            let pod = running(&format!("p{index}"), "web", *node);
            spread(pod, constraints.clone()).change()
        });
        let others = self.nodes.with_pods(&self.others).into_iter();
        others.chain(pods).collect()
    }

    /// The nodes of the workload's pods, without those whose bits are set in `gone`.
    fn staying(&self, gone: u32) -> impl Iterator<Item = usize> {
        let pods = self.pods.iter().enumerate();
        pods.filter(move |(index, _)| gone & (1 << index) == 0)
            .map(|(_, node)| *node)
    }

    /// All pods that count, by node, without those whose bits are set in `gone`.
    fn counted(&self, gone: u32) -> Vec<usize> {
        let all = self.staying(gone).chain(self.others.iter().copied());
        by_node(self.nodes.count(), all)
    }

    /// Returns how badly the pods that stay are spread, under hard constraints and under soft ones:
    /// the number of pods of the workload on nodes in no domain, and the sum of the squared counts.
    fn badness(&self, gone: u32) -> [(i64, i64); 2] {
        let counted = self.counted(gone);
        [true, false].map(|hard| {
            let (mut outside, mut squares) = (0, 0);
            for (index, _) in (0..)
                .zip(&self.constraints)
                .filter(|it| it.1.is_hard == hard)
            {
                let counts = self.nodes.counts(&self.constraints, index, &counted);
                squares += counts.values().map(|count| count * count).sum::<i64>();
                let domain = |node| self.nodes.domain(&self.constraints, index, node);
                outside += self
                    .staying(gone)
                    .filter(|it| domain(*it).is_none())
                    .count() as i64;
            }
            (outside, squares)
        })
    }

    fn choices(&self) -> impl Iterator<Item = u32> {
        let all = 0..1_u32 << self.pods.len();
        all.filter(|gone| gone.count_ones() as usize == self.count)
    }

    async fn answer(&self, server: &Server) -> (RankRemovalsResponse, u32) {
        let mut changes = self.changes();
        let mut answers = Vec::new();
        // The order in which objects arrive changes nothing.
        for name in ["forth", "back"] {
            server
                .replace(name, changes.clone(), DefaultConstraints::default())
                .await;
            let mut answer = server.rank_removals(request(name, self.count as i32)).await;
            (answer.epoch, answer.revision) = (String::new(), 0);
            answers.push(answer);
            changes.reverse();
        }
        let [forth, back] = [0, 1].map(|at: usize| answers[at].encode_to_vec());
        assert_eq!(forth, back, "{self:?}");
        let answer = answers.remove(0);
        let removed = answer.removals.iter().map(|it| number(&it.name));
        let gone = removed.fold(0, |gone, pod| gone | 1_u32 << pod);
        assert_eq!(gone.count_ones() as usize, self.count, "{self:?}");
        (answer, gone)
    }
}

/// The answer is the best choice if keys contain one another, or if only two of them cross.
#[tokio::test]
async fn no_choice_is_better() {
    let server = Server::start().await;
    let mut rng = Rng::with_seed(7);
    let keys = [&KEYS[..], &[&[HOSTNAME, RACK, ZONE]]].concat();
    for round in 0..420 {
        let case = Case::random(&mut rng, keys[round % keys.len()]);
        let (answer, gone) = case.answer(&server).await;
        assert!(answer.optimal, "{case:?}");
        let best = case.choices().map(|gone| case.badness(gone)).min();
        assert_eq!(Some(case.badness(gone)), best, "{gone:b} of {case:?}");
        for (index, constraint) in case.constraints.iter().enumerate() {
            let is_it = |after: &&TopologySpread| after.constraint_index as usize == index;
            let after = answer.after.iter().find(is_it).expect("one of each");
            let skew = |gone| {
                let counted = case.counted(gone);
                case.nodes.skew(&case.constraints, index, &counted)
            };
            assert_eq!(after.skew, skew(gone), "{case:?}");
            let excess = after.skew - i64::from(constraint.max_skew);
            assert_eq!(after.excess, excess.max(0));
            let outside = case.badness(gone).iter().any(|(outside, _)| *outside > 0)
                || case.badness(0).iter().any(|(outside, _)| *outside > 0);
            if case.constraints.len() == 1 && !outside {
                let least = case.choices().map(skew).min();
                assert_eq!(Some(after.skew), least, "{case:?}");
            }
        }
    }
}

/// Of equally even choices, the answer has the lowest sum of the pods' places in the deletion order
/// of a ReplicaSet.
#[tokio::test]
async fn ties_go_by_the_order_of_deletion() {
    let server = Server::start().await;
    let mut rng = Rng::with_seed(11);
    let keys: [&[&str]; 2] = [&[ZONE, HOSTNAME], &[ZONE, RACK]];
    for round in 0..120 {
        let case = Case::random(&mut rng, keys[round % 2]);
        let (_, gone) = case.answer(&server).await;
        let mut on_node = BTreeMap::new();
        for node in &case.pods {
            *on_node.entry(node).or_insert(0) += 1;
        }
        // The pods differ only in the number of pods on their node and in their names.
        let mut order: Vec<usize> = (0..case.pods.len()).collect();
        order.sort_by_key(|pod| (-on_node[&case.pods[*pod]], *pod));
        let places = |gone: u32| {
            let going = order.iter().enumerate();
            let going = going.filter(|(_, pod)| gone & (1 << **pod) != 0);
            going.map(|(place, _)| place).sum::<usize>()
        };
        let best = case.badness(gone);
        let ties = case.choices().filter(|other| case.badness(*other) == best);
        let least = ties.map(places).min();
        assert_eq!(Some(places(gone)), least, "{gone:b} of {case:?}");
    }
}

/// With three keys that cross, no exchange of a pod that goes for one that stays is better.
#[tokio::test]
async fn three_crossing_keys_are_told_as_not_optimal() {
    const THIRD: &str = "example.com/third";
    let server = Server::start().await;
    let mut rng = Rng::with_seed(3);
    let mut crossing = 0;
    for _ in 0..120 {
        let mut case = Case::random(&mut rng, &[ZONE, RACK, THIRD]);
        for labels in &mut case.nodes.0 {
            labels.insert(THIRD, format!("v{}", rng.usize(..3)));
        }
        let (answer, gone) = case.answer(&server).await;
        crossing += usize::from(!answer.optimal);
        let exchanges = case.choices();
        for other in exchanges.filter(|other| (other ^ gone).count_ones() == 2) {
            let is_best = case.badness(gone) <= case.badness(other);
            assert!(is_best, "{gone:b} {other:b} {case:?}");
        }
    }
    assert!(crossing > 10, "{crossing}");
}
