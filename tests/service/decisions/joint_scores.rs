//! Joint placement: of all orders with the most picks, tried one by one on a recount, none has a
//! larger sum of scores and bonuses.

use std::collections::BTreeMap;

use crate::decisions::joint::random_nodes;
use crate::decisions::rebalance::cases;
use crate::decisions::removals::{RACK, WEB};
use evenkeel::proto::v1::{Change, NodeBonus, NodeCapacity, NodeChecks, PlaceRequest, Planning};
use fastrand::Rng;
use support::build::{HOSTNAME, ZONE, hard, node, on, place_of, pod, soft, spread};
use support::model::{self, Stored};
use support::recount::Cluster;
use support::server::Server;

/// Keys of the hard constraints, and of the soft ones.
const KEYS: [(&[&str], &[&str]); 5] = [
    (&[ZONE], &[RACK]),
    (&[ZONE, RACK], &[HOSTNAME]),
    (&[ZONE, RACK], &[ZONE, HOSTNAME]),
    (&[RACK, HOSTNAME], &[ZONE]),
    (&[ZONE, RACK], &[]),
];

fn objects(rng: &mut Rng) -> (Vec<Change>, usize) {
    let nodes = random_nodes(rng, 6);
    let objects = nodes.iter().enumerate().map(|(index, labels)| {
        let labels: Vec<_> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
        node(&format!("n{index}"), &labels).change()
    });
    let mut objects: Vec<Change> = objects.collect();
    for old in 0..rng.usize(..3) {
        let at = format!("n{}", rng.usize(..nodes.len()));
        objects.push(on(pod(&format!("old{old}"), &WEB), &at).change());
    }
    (objects, nodes.len())
}

fn request(rng: &mut Rng, nodes: usize, keys: (&[&str], &[&str])) -> PlaceRequest {
    let constraints = keys.0.iter().map(|key| hard(rng.i32(1..3), key, &WEB));
    let mut constraints: Vec<_> = constraints.collect();
    constraints.extend(keys.1.iter().map(|key| soft(1, key, &WEB)));
    let name = |index: usize| format!("n{index}");
    let has_bonuses = rng.usize(..3) == 0;
    let bonuses = (0..if has_bonuses { nodes } else { 0 }).map(|index| NodeBonus {
        node: name(index),
        score: rng.i64(-40..40),
    });
    let bonuses = bonuses.collect();
    let capacities = (0..nodes).map(|index| NodeCapacity {
        node: name(index),
        replicas: rng.i32(0..3),
    });
    PlaceRequest {
        capacities: capacities.collect(),
        planning: Planning::Joint.into(),
        bonuses,
        ..place_of(spread(pod("web", &WEB), constraints), rng.i32(1..6))
    }
}

/// The most picks of any order, and the best sum of scores and bonuses of as many.
fn best(cluster: &Cluster, request: &PlaceRequest) -> (usize, i64) {
    let pod = request.pod.clone().expect("a pod");
    let bonus = |node: &str| {
        let found = request.bonuses.iter().find(|it| it.node == node);
        found.map_or(0, |it| it.score)
    };
    let mut reached = BTreeMap::from([(vec![0; request.capacities.len()], 0)]);
    for placed in 0..request.replicas as usize {
        let mut next: BTreeMap<Vec<i32>, i64> = BTreeMap::new();
        for (picks, total) in &reached {
            let mut now = cluster.clone();
            for (node, times) in picks.iter().enumerate() {
                let running = |_| on(pod.clone(), &format!("n{node}"));
                now.pods.extend((0..*times).map(running));
            }
            let number = |node: &String| node[1..].parse::<usize>().expect("a number");
            let mut feasible = now.filter(&pod, None, NodeChecks::Unspecified).feasible();
            feasible.retain(|it| picks[number(it)] < request.capacities[number(it)].replicas);
            let scores = now
                .score(&pod, Some(&feasible), NodeChecks::Unspecified)
                .scores;
            for scored in scores {
                let mut after = picks.clone();
                after[number(&scored.node)] += 1;
                let total = total + scored.score + bonus(&scored.node);
                let known = next.entry(after).or_insert(total);
                *known = (*known).max(total);
            }
        }
        if next.is_empty() {
            return (placed, reached.into_values().max().expect("a start"));
        }
        reached = next;
    }
    let total = reached.into_values().max().expect("it was reached");
    (request.replicas as usize, total)
}

#[tokio::test]
async fn no_order_of_picks_has_better_scores() {
    let server = Server::start().await;
    let mut gained = 0;
    for seed in 0..cases() * 2 / 3 {
        let mut rng = Rng::with_seed(seed);
        let (objects, nodes) = objects(&mut rng);
        let mut cluster = Cluster::default();
        for change in &objects {
            model::apply(&mut cluster, change);
        }
        let joint = request(&mut rng, nodes, KEYS[seed as usize % KEYS.len()]);
        server.replace_all(objects).await;
        let sum = async |request: PlaceRequest| {
            let answer = server.client().place(request.clone()).await;
            let answer = answer.expect("a valid request").into_inner();
            let totals = answer.placements.iter().map(|placed| {
                let bonus = request.bonuses.iter().find(|it| it.node == placed.node);
                placed.score + bonus.map_or(0, |it| it.score)
            });
            let found = (answer.placements.len(), totals.sum::<i64>());
            (found, answer.score_bound)
        };
        let best = best(&cluster, &joint);
        let (found, bound) = sum(joint.clone()).await;
        assert_eq!(
            (found, bound),
            (best, Some(best.1)),
            "seed {seed}: {joint:?}"
        );
        let one_by_one = PlaceRequest {
            planning: Planning::Greedy.into(),
            ..joint
        };
        gained += usize::from(sum(one_by_one).await.0 < found);
    }
    assert!(gained > 2, "{gained}");
}
