//! Joint placement: of all orders of picks, tried one by one on a recount, none has more picks or, with
//! as many, a larger sum of scores and bonuses.

use std::collections::BTreeMap;

use crate::decisions::worlds::{Nodes, RACK, WEB, capacities, cases, name, number};
use evenkeel::proto::v1::{Change, NodeBonus, NodeChecks, PlaceRequest, Planning};
use fastrand::Rng;
use support::build::{HOSTNAME, ZONE, hard, on, place_of, pod, soft, spread};
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
    let nodes = Nodes::random(rng, 6);
    let mut objects: Vec<Change> = nodes.objects().map(Stored::change).collect();
    for old in 0..rng.usize(..3) {
        let at = name(rng.usize(..nodes.count()));
        objects.push(on(pod(&format!("old{old}"), &WEB), &at).change());
    }
    (objects, nodes.count())
}

fn request(rng: &mut Rng, nodes: usize, keys: (&[&str], &[&str])) -> PlaceRequest {
    let constraints = keys.0.iter().map(|key| hard(rng.i32(1..3), key, &WEB));
    let mut constraints: Vec<_> = constraints.collect();
    constraints.extend(keys.1.iter().map(|key| soft(1, key, &WEB)));
    let has_bonuses = rng.usize(..3) == 0;
    let bonuses = (0..if has_bonuses { nodes } else { 0 }).map(|index| NodeBonus {
        node: name(index),
        score: rng.i64(-40..40),
    });
    let bonuses = bonuses.collect();
    let room: Vec<usize> = (0..nodes).map(|_| rng.usize(0..3)).collect();
    PlaceRequest {
        capacities: capacities(&room),
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
                let running = |_| on(pod.clone(), &name(node));
                now.pods.extend((0..*times).map(running));
            }
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
        let cluster = model::cluster(&objects);
        let joint = request(&mut rng, nodes, KEYS[seed as usize % KEYS.len()]);
        server.replace_all(objects).await;
        let sum = async |request: PlaceRequest| {
            let answer = server.place(request.clone()).await;
            let totals = answer.placements.iter().map(|placed| {
                let bonus = request.bonuses.iter().find(|it| it.node == placed.node);
                placed.score + bonus.map_or(0, |it| it.score)
            });
            let found = (answer.placements.len(), totals.sum::<i64>());
            (found, answer.bound.zip(answer.score_bound))
        };
        let best = best(&cluster, &joint);
        let (found, bound) = sum(joint.clone()).await;
        let wanted = Some((best.0 as i32, best.1));
        assert_eq!((found, bound), (best, wanted), "seed {seed}: {joint:?}");
        let one_by_one = PlaceRequest {
            planning: Planning::Greedy.into(),
            ..joint
        };
        let (greedy, bound) = sum(one_by_one).await;
        assert_eq!(bound, None);
        gained += usize::from(greedy < found);
    }
    assert!(gained > 2, "{gained}");
}
