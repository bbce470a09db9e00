//! Joint placement in the Fleet dialect: of all orders of picks, tried one by one, none has more
//! picks or, with as many, a larger sum of scores. Each pick is accepted after those before it.

use std::collections::{BTreeMap, HashMap};

use crate::decisions::worlds::{Constraint, Nodes, RACK, cases, number, web};
use evenkeel::proto::v1::{Change, Dialect, PlaceRequest, PlaceResponse, Planning, Pod, View};
use fastrand::Rng;
use support::build::{HOSTNAME, ZONE, place_of};
use support::server::Server;

/// Clusters with their labels, those that hold the placement, and how many are to hold it.
#[derive(Debug)]
struct Fleet {
    clusters: Nodes,
    holders: Vec<usize>,
    constraints: Vec<Constraint>,
    wanted: usize,
}

impl Fleet {
    fn random(rng: &mut Rng) -> Self {
        let clusters = Nodes::random(rng, 9);
        let mut holders: Vec<usize> = (0..clusters.count())
            .filter(|_| rng.usize(..4) == 0)
            .collect();
        holders.truncate(3);
        let keys = match rng.usize(..4) {
            0 => &[ZONE][..],
            1 => &[ZONE, HOSTNAME],
            _ => &[ZONE, RACK],
        };
        let constraint = |key: &&'static str| Constraint {
            key,
            max_skew: rng.i32(1..3),
            is_hard: rng.usize(..5) > 0,
        };
        Self {
            constraints: keys.iter().map(constraint).collect(),
            wanted: rng.usize(1..=clusters.count() + 1),
            holders,
            clusters,
        }
    }

    fn pod(&self) -> Pod {
        web(&self.constraints)
    }

    fn changes(&self) -> Vec<Change> {
        self.clusters.with_pods(&self.holders)
    }

    /// The score of a cluster while those in `holding` hold the placement; `None` if it is refused.
    fn score(&self, holding: u32, cluster: usize) -> Option<i64> {
        if holding & 1 << cluster != 0 {
            return None;
        }
        // The largest count minus the smallest; with a single domain, 1 if `cluster` holds, else 0.
        let skew = |holding: u32, key: &str| {
            let mut counts: BTreeMap<&String, i64> = BTreeMap::new();
            for (at, labels) in self.clusters.0.iter().enumerate() {
                if let Some(value) = labels.get(key) {
                    *counts.entry(value).or_default() += i64::from(holding >> at & 1);
                }
            }
            let (most, least) = (counts.values().max(), counts.values().min());
            let skew = most.zip(least).map_or(0, |(most, least)| most - least);
            match counts.len() {
                1 => i64::from(holding >> cluster & 1),
                _ => skew,
            }
        };
        let each = self.constraints.iter().map(|it| {
            if !self.clusters.0[cluster].contains_key(it.key) {
                return Some(0);
            }
            let (before, after) = (skew(holding, it.key), skew(holding | 1 << cluster, it.key));
            match after <= i64::from(it.max_skew) {
                true => Some(before - after),
                false => (!it.is_hard).then_some(-1000),
            }
        });
        each.sum()
    }

    fn held(&self) -> u32 {
        self.holders.iter().fold(0, |held, at| held | 1 << at)
    }

    /// The most picks of any order, and the largest sum of the scores of as many.
    fn best(&self) -> (usize, i64) {
        let wanted = self.wanted.saturating_sub(self.holders.len());
        let mut reached = HashMap::from([(self.held(), 0)]);
        for picks in 0..=wanted {
            let mut next: HashMap<u32, i64> = HashMap::new();
            for (holding, total) in &reached {
                for cluster in 0..self.clusters.count() {
                    if let Some(score) = self.score(*holding, cluster) {
                        let best = next.entry(holding | 1 << cluster).or_insert(i64::MIN);
                        *best = (*best).max(total + score);
                    }
                }
            }
            if picks == wanted || next.is_empty() {
                return (picks, reached.into_values().max().unwrap_or(0));
            }
            reached = next;
        }
        unreachable!("the last round returns")
    }

    /// Checks that each placement was accepted. Returns their number and the sum of their scores.
    fn check(&self, answer: &PlaceResponse) -> (usize, i64) {
        let (mut holding, mut total) = (self.held(), 0);
        for placement in &answer.placements {
            let cluster = number(&placement.node);
            let score = self.score(holding, cluster);
            assert_eq!(
                score,
                Some(placement.score),
                "{holding:b} {cluster}: {self:?}"
            );
            holding |= 1 << cluster;
            total += placement.score;
        }
        let placed = answer.placements.len();
        let held = self.holders.len();
        let wanted = self.wanted.saturating_sub(held);
        assert_eq!(placed + answer.unplaced as usize, wanted, "{self:?}");
        assert_eq!(
            answer.removed.len(),
            held.saturating_sub(self.wanted),
            "{self:?}"
        );
        (placed, total)
    }

    async fn place(&self, server: &Server, planning: Planning) -> PlaceResponse {
        let request = PlaceRequest {
            dialect: Dialect::Fleet.into(),
            planning: planning.into(),
            view: View::Full.into(),
            ..place_of(self.pod(), self.wanted as i32)
        };
        server.place(request).await
    }
}

#[tokio::test]
async fn no_order_of_picks_is_better() {
    let server = Server::start().await;
    let mut rng = Rng::with_seed(7);
    let mut better = 0;
    for _ in 0..cases() {
        let fleet = Fleet::random(&mut rng);
        server.replace_all(fleet.changes()).await;
        let greedy = fleet.place(&server, Planning::Greedy).await;
        assert_eq!((greedy.bound, greedy.score_bound), (None, None));
        let joint = fleet.place(&server, Planning::Joint).await;
        let (placed, total) = fleet.check(&joint);
        assert_eq!((placed, total), fleet.best(), "{fleet:?}");
        let bounds = (Some(placed as i32), Some(total));
        assert_eq!((joint.bound, joint.score_bound), bounds, "{fleet:?}");
        let picked: Vec<_> = joint.steps.iter().flat_map(|step| &step.picked).collect();
        let placements: Vec<_> = joint.placements.iter().map(|it| &it.node).collect();
        assert_eq!(picked, placements, "{fleet:?}");
        let (before, total_before) = fleet.check(&greedy);
        assert!(before <= placed, "{fleet:?}");
        better += usize::from((before, total_before) != (placed, total));
    }
    assert!(
        better > 3,
        "one after the other does as well but {better} times"
    );
}
