//! The pods that RankRemovals chooses: of all choices, tried one by one, none leaves the other pods
//! spread better. The deletion order of a ReplicaSet decides between equally good choices.

use std::collections::BTreeMap;

use crate::decisions::rebalance::KEYS;
use crate::decisions::removals::{RACK, WEB, ask, request, web};
use evenkeel::proto::v1::{Change, DefaultConstraints, RankRemovalsResponse};
use fastrand::Rng;
use prost::Message;
use support::build::{HOSTNAME, ZONE, hard, node, on, pod, soft};
use support::model::Stored;
use support::server::Server;

/// A small cluster: the labels of each node, the node of each pod, and the constraints.
#[derive(Debug)]
struct Case {
    nodes: Vec<BTreeMap<&'static str, String>>,
    /// The node of each pod of the workload.
    pods: Vec<usize>,
    /// The node of each other pod that the constraints count.
    others: Vec<usize>,
    constraints: Vec<(&'static str, bool, i32)>,
    count: usize,
}

impl Case {
    fn random(rng: &mut Rng, keys: &[&'static str]) -> Self {
        let nodes = rng.usize(2..7);
        let labels = |rng: &mut Rng, index: usize| {
            let mut labels = BTreeMap::from([(HOSTNAME, format!("n{index}"))]);
            for (key, values) in [(ZONE, 3), (RACK, 3)] {
                if rng.usize(..12) > 0 {
                    labels.insert(key, format!("v{}", rng.usize(..values)));
                }
            }
            labels
        };
        let nodes: Vec<_> = (0..nodes).map(|index| labels(rng, index)).collect();
        let pods = rng.usize(1..10);
        let constraints = keys.iter().map(|key| (*key, rng.bool(), rng.i32(1..4)));
        Self {
            constraints: constraints.collect(),
            pods: (0..pods).map(|_| rng.usize(..nodes.len())).collect(),
            others: (0..rng.usize(..3))
                .map(|_| rng.usize(..nodes.len()))
                .collect(),
            count: rng.usize(1..=pods),
            nodes,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let nodes = self.nodes.iter().enumerate().map(|(index, labels)| {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
            node(&format!("n{index}"), &labels).change()
        });
        let constraints = self
            .constraints
            .iter()
            .map(|(key, is_hard, skew)| match is_hard {
                true => hard(*skew, key, &WEB),
                false => soft(*skew, key, &WEB),
            });
        let constraints: Vec<_> = constraints.collect();
        let names: Vec<String> = self.pods.iter().map(|node| format!("n{node}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let others = self.others.iter().enumerate();
        let others = others
            .map(|(i, node)| on(pod(&format!("other{i}"), &WEB), &format!("n{node}")).change());
        nodes
            .chain(web(&names, &constraints))
            .chain(others)
            .collect()
    }

    /// The domain of a node under a constraint, if it is in one.
    fn domain(&self, constraint: usize, node: usize) -> Option<&String> {
        let (key, is_hard, _) = self.constraints[constraint];
        let alike = self
            .constraints
            .iter()
            .filter(|(_, hard, _)| *hard == is_hard);
        let labels = &self.nodes[node];
        let has_all = alike.into_iter().all(|(key, ..)| labels.contains_key(key));
        labels.get(key).filter(|_| has_all)
    }

    /// Counts by domain, without the pods whose bits are set in `gone`.
    fn counts(&self, constraint: usize, gone: u32) -> BTreeMap<&String, i64> {
        let all = 0..self.nodes.len();
        let domains = all.filter_map(|node| self.domain(constraint, node));
        let mut counts: BTreeMap<_, i64> = domains.map(|domain| (domain, 0)).collect();
        let pods = self.pods.iter().enumerate();
        let pods = pods.filter(|(index, _)| gone & (1 << index) == 0);
        let pods = pods
            .map(|(_, node)| *node)
            .chain(self.others.iter().copied());
        for domain in pods.filter_map(|node| self.domain(constraint, node)) {
            *counts.get_mut(domain).expect("a domain") += 1;
        }
        counts
    }

    /// Returns how badly the pods that stay are spread, under hard constraints and under soft ones:
    /// the number of pods of the workload on nodes in no domain, and the sum of the squared counts.
    fn badness(&self, gone: u32) -> [(i64, i64); 2] {
        [true, false].map(|hard| {
            let (mut outside, mut squares) = (0, 0);
            for (index, (_, is_hard, _)) in self.constraints.iter().enumerate() {
                if *is_hard == hard {
                    let counts = self.counts(index, gone);
                    squares += counts.values().map(|count| count * count).sum::<i64>();
                    let staying = self.pods.iter().enumerate();
                    let staying = staying.filter(|(pod, _)| gone & (1 << pod) == 0);
                    let lost = staying.filter(|(_, node)| self.domain(index, **node).is_none());
                    outside += lost.count() as i64;
                }
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
            let mut answer = ask(server, request(name, self.count as i32)).await;
            (answer.epoch, answer.revision) = (String::new(), 0);
            answers.push(answer);
            changes.reverse();
        }
        assert_eq!(
            answers[0].encode_to_vec(),
            answers[1].encode_to_vec(),
            "{self:?}"
        );
        let answer = answers.remove(0);
        let mut gone = 0;
        for removal in &answer.removals {
            gone |= 1_u32 << removal.name[1..].parse::<u32>().expect("a number");
        }
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
        for (index, (_, _, max_skew)) in case.constraints.iter().enumerate() {
            let is_it = |after: &&evenkeel::proto::v1::TopologySpread| {
                after.constraint_index as usize == index
            };
            let after = answer.after.iter().find(is_it).expect("one of each");
            let skew = |gone| {
                let counts = case.counts(index, gone);
                let most = counts.values().max().unwrap_or(&0);
                most - counts.values().min().unwrap_or(&0)
            };
            assert_eq!(after.skew, skew(gone), "{case:?}");
            assert_eq!(after.excess, (after.skew - i64::from(*max_skew)).max(0));
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
    for round in 0..120 {
        let keys: &[&'static str] = if round % 2 == 0 {
            &[ZONE, HOSTNAME]
        } else {
            &[ZONE, RACK]
        };
        let case = Case::random(&mut rng, keys);
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
        assert_eq!(
            Some(places(gone)),
            ties.map(places).min(),
            "{gone:b} of {case:?}"
        );
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
        for labels in &mut case.nodes {
            labels.insert(THIRD, format!("v{}", rng.usize(..3)));
        }
        let (answer, gone) = case.answer(&server).await;
        crossing += usize::from(!answer.optimal);
        for other in case
            .choices()
            .filter(|other| (other ^ gone).count_ones() == 2)
        {
            assert!(
                case.badness(gone) <= case.badness(other),
                "{gone:b} {other:b} {case:?}"
            );
        }
    }
    assert!(crossing > 10, "{crossing}");
}
