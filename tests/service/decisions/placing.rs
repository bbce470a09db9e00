//! Placing many replicas at once compared with placing one after the other: Filter, Score of the
//! nodes that pass, a pick of one of the best, and UpdateSnapshot with the pick. A recount says
//! which of the best nodes is picked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{generate, reasons};

use evenkeel::proto::v1::{
    Change, ConstraintReport, DefaultConstraints, Dialect, FilterRequest, FilterResponse, Holder,
    NodeBonus, NodeCapacity, NodeChecks, NodeNames, PlaceRequest, Pod, ScoreRequest,
    UpdateSnapshotRequest, View, WorkloadReplicas,
};
use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use support::build::{
    HOSTNAME, ZONE, batch_of, filter_in, hard, node, on, place_of, pod, score_of, soft, spread,
};
use support::model::{self, Stored};
use support::recount::{Cluster, PickedNode, with_merged_terms};
use support::server::Server;

/// A cluster and the replicas to place on it.
#[derive(Debug, Clone)]
struct Case {
    batches: Vec<Vec<Change>>,
    defaults: DefaultConstraints,
    ask: Ask,
}

#[derive(Debug, Clone)]
struct Ask {
    pod: Pod,
    replicas: i32,
    candidates: Option<Vec<String>>,
    bonuses: BTreeMap<String, i64>,
    capacities: BTreeMap<String, i32>,
    checks: NodeChecks,
}

const CHECKS: [NodeChecks; 2] = [NodeChecks::Unspecified, NodeChecks::SpreadOnly];

fn name() -> impl Strategy<Value = String> {
    const NAMES: [&str; 7] = ["n0", "n1", "n2", "n3", "n4", "n5", "stranger"];
    select(&NAMES[..]).prop_map(str::to_owned)
}

fn case() -> impl Strategy<Value = Case> {
    let names = ["n0", "n1", "n2", "n3", "n4", "n5"].map(str::to_owned);
    let candidates = weighted(0.2, subsequence(names.to_vec(), 1..=6).prop_shuffle());
    let bonuses = btree_map(name(), -40..40i64, 0..4);
    let capacities = btree_map(name(), 0..4i32, 0..4);
    let checks = select(&CHECKS[..]);
    let ask = (
        generate::incoming::pod(),
        1..14i32,
        candidates,
        bonuses,
        capacities,
        checks,
    );
    let ask = ask.prop_map(
        |(pod, replicas, candidates, bonuses, capacities, checks)| Ask {
            pod,
            replicas,
            candidates,
            bonuses,
            capacities,
            checks,
        },
    );
    let batches = vec(generate::batch(24), 1..4);
    (batches, generate::defaults(), ask).prop_map(|(batches, defaults, ask)| Case {
        batches,
        defaults,
        ask,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn place_is_filter_score_and_update_in_rounds(case in case()) {
        static CASES: AtomicUsize = AtomicUsize::new(0);
        let snapshot = format!("rounds-{}", CASES.fetch_add(1, Ordering::Relaxed));
        let (runtime, server) = Server::shared();
        runtime.block_on(async {
            let mut cluster = Cluster {
                defaults: case.defaults.clone(),
                ..Cluster::default()
            };
            for changes in case.batches {
                changes.iter().for_each(|change| model::apply(&mut cluster, change));
                let request = UpdateSnapshotRequest {
                    default_constraints: Some(case.defaults.clone()),
                    ..batch_of(&snapshot, changes)
                };
                server.send(request).await;
            }
            check(server, &snapshot, &cluster, &case.ask).await;
            server.delete(&snapshot).await;
        });
    }
}

/// Places in one call, in rounds and by a recount, and compares.
async fn check(server: &Server, snapshot: &str, cluster: &Cluster, ask: &Ask) {
    let before = server.describe(snapshot).await;
    let placed = server.place(ask.place(snapshot)).await;
    assert_eq!(placed.revision, before.revision, "planning changes nothing");
    assert_eq!(server.describe(snapshot).await.revision, before.revision);
    let picks = placed.placements.iter().map(|pick| PickedNode {
        node: pick.node.clone(),
        score: pick.score,
    });
    let picks: Vec<PickedNode> = picks.collect();
    assert_eq!(picks, cluster.place(&ask.place(snapshot)));
    assert_eq!(
        placed.unplaced as usize,
        ask.replicas as usize - picks.len()
    );
    reasons::check(&[], &placed.reasons);

    for (round, pick) in picks.iter().enumerate() {
        let filter = ask.filter(server, snapshot, &picks[..round]).await;
        let best = ask.best(server, snapshot, filter.feasible).await;
        assert!(best.contains(pick), "round {round}: {pick:?} of {best:?}");
        let mut picked = on(with_merged_terms(&ask.pod), &pick.node);
        let metadata = picked.metadata.get_or_insert_default();
        metadata.name = format!("pick-{round}");
        server.update(snapshot, vec![picked.change()]).await;
    }
    let mut after = ask.filter(server, snapshot, &picks).await;
    // Place does not count feasible nodes by domain.
    for report in &mut after.constraints {
        for domain in &mut report.domains {
            domain.feasible_nodes = 0;
        }
    }
    assert!(placed.unplaced == 0 || after.feasible.is_empty());
    let is_hard = |report: &&ConstraintReport| {
        let constraint = report.constraint.as_ref().expect("a report has one");
        constraint.when_unsatisfiable == "DoNotSchedule"
    };
    let reported: Vec<_> = placed.constraints.iter().filter(is_hard).collect();
    assert_eq!(reported, after.constraints.iter().collect::<Vec<_>>());
}

impl Ask {
    fn place(&self, snapshot: &str) -> PlaceRequest {
        let bonus = |(node, score): (&String, &i64)| NodeBonus {
            node: node.clone(),
            score: *score,
        };
        let capacity = |(node, replicas): (&String, &i32)| NodeCapacity {
            node: node.clone(),
            replicas: *replicas,
        };
        PlaceRequest {
            snapshot: snapshot.into(),
            candidates: self.candidates.clone().map(|names| NodeNames { names }),
            node_checks: self.checks.into(),
            bonuses: self.bonuses.iter().map(bonus).collect(),
            capacities: self.capacities.iter().map(capacity).collect(),
            ..place_of(self.pod.clone(), self.replicas)
        }
    }

    /// Filter over the nodes that have room.
    async fn filter(
        &self,
        server: &Server,
        snapshot: &str,
        picks: &[PickedNode],
    ) -> FilterResponse {
        let all = FilterRequest {
            node_checks: self.checks.into(),
            view: View::Full.into(),
            candidates: self.candidates.clone().map(|names| NodeNames { names }),
            ..filter_in(snapshot, self.pod.clone())
        };
        let mut response = server.filter(all).await;
        let is_full = |node: &String| {
            let taken = picks.iter().filter(|pick| pick.node == *node).count();
            self.capacities
                .get(node)
                .is_some_and(|room| taken >= *room as usize)
        };
        response.feasible.retain(|node| !is_full(node));
        response
    }

    /// All nodes of `feasible` that are best by score and bonus.
    async fn best(
        &self,
        server: &Server,
        snapshot: &str,
        feasible: Vec<String>,
    ) -> Vec<PickedNode> {
        let request = ScoreRequest {
            snapshot: snapshot.into(),
            candidates: Some(NodeNames { names: feasible }),
            ..score_of(self.pod.clone())
        };
        let scores = server.score(request).await.scores.into_iter();
        let picks = scores.map(|score| PickedNode {
            node: score.node,
            score: score.score,
        });
        let total = |pick: &PickedNode| {
            let bonus = self.bonuses.get(&pick.node).copied().unwrap_or(0);
            pick.score + bonus
        };
        let picks: Vec<PickedNode> = picks.collect();
        let most = picks.iter().map(total).max();
        let best = picks.into_iter().filter(|pick| Some(total(pick)) == most);
        best.collect()
    }
}

const WEB: [(&str, &str); 1] = [("app", "web")];

/// Many small domains: single nodes, and racks of two.
#[tokio::test]
async fn many_small_domains() {
    let rack = |max_skew| hard(max_skew, "rack", &WEB);
    for (name, constraints, bonus) in [
        ("hostname, hard", vec![hard(1, HOSTNAME, &WEB)], 0),
        ("hostname, soft", vec![soft(1, HOSTNAME, &WEB)], 0),
        ("rack, hard", vec![rack(1)], 0),
        (
            "rack, hard, zone, soft",
            vec![rack(1), soft(1, ZONE, &WEB)],
            1,
        ),
        (
            "all of them",
            vec![
                hard(2, ZONE, &WEB),
                hard(1, HOSTNAME, &WEB),
                rack(2),
                soft(1, ZONE, &WEB),
                soft(2, HOSTNAME, &WEB),
            ],
            7,
        ),
    ] {
        let server = Server::start().await;
        let mut changes = Vec::new();
        for i in 0..90 {
            let (zone, rack) = (format!("z{}", i % 7 % 4), format!("r{}", i / 2));
            let labels = [(ZONE, &*zone), ("rack", &*rack)];
            let labels = if i % 17 == 3 { &labels[..1] } else { &labels };
            changes.push(node(&format!("n{i}"), labels).change());
            for j in 0..(i * 7 % 3) {
                let running = on(pod(&format!("p{i}-{j}"), &WEB), &format!("n{i}"));
                changes.push(running.change());
            }
        }
        let cluster = model::cluster(&changes);
        server.update("", changes).await;
        let ask = Ask {
            pod: spread(pod("", &WEB), constraints),
            replicas: 150,
            candidates: None,
            bonuses: (0..30)
                .map(|i| (format!("n{}", i * 3), i % 4 * bonus))
                .collect(),
            capacities: (0..20).map(|i| (format!("n{}", i * 4), i % 3)).collect(),
            checks: NodeChecks::Unspecified,
        };
        println!("{name}");
        check(&server, "default", &cluster, &ask).await;
    }
}

/// Equal nodes are taken in turn: the one with the fewest picks first, then the
/// one with the fewest pods that the constraints count, then by name.
#[tokio::test]
async fn equal_nodes_are_taken_in_turn() {
    let server = Server::start().await;
    let mut changes = Vec::new();
    for i in 0..12 {
        let zone = format!("z{}", i % 3);
        changes.push(node(&format!("n{i:02}"), &[(ZONE, &zone)]).change());
    }
    // One counted pod on a node of each zone leaves the zones equal.
    for (i, labels) in [(0, WEB), (1, WEB), (2, WEB), (3, [("app", "db")])] {
        let running = on(pod(&format!("p{i}"), &labels), &format!("n{i:02}"));
        changes.push(running.change());
    }
    server.update("", changes).await;
    let picks = async |constraints, replicas| {
        let request = place_of(spread(pod("", &WEB), constraints), replicas);
        let placements = server.place(request).await.placements.into_iter();
        placements.map(|p| p.node).collect::<Vec<String>>()
    };
    let zone = || vec![hard(1, ZONE, &WEB)];
    assert_eq!(
        picks(zone(), 13).await,
        [
            "n03", "n04", "n05", "n06", "n07", "n08", "n09", "n10", "n11", "n00", "n01", "n02",
            "n03"
        ]
    );
    for constraints in [Vec::new(), zone(), vec![soft(1, ZONE, &WEB)]] {
        let placed = picks(constraints, 96).await;
        for i in 0..12 {
            let name = format!("n{i:02}");
            let times = placed.iter().filter(|node| **node == name).count();
            assert_eq!(times, 8, "{name} in {placed:?}");
        }
    }
}

#[tokio::test]
async fn nodes_that_the_snapshot_does_not_hold_are_told() {
    let server = Server::start().await;
    server.update("", vec![node("n", &[]).change()]).await;
    let bonus = |node: &str| NodeBonus {
        node: node.into(),
        score: 1,
    };
    let capacity = |node: &str| NodeCapacity {
        node: node.into(),
        replicas: 5,
    };
    let request = PlaceRequest {
        bonuses: ["far", "n", "away"].map(bonus).into(),
        capacities: ["n", "gone", "far"].map(capacity).into(),
        ..place_of(pod("", &[]), 1)
    };
    let one = server.place(request.clone()).await;
    assert_eq!(one.unknown_nodes, ["far", "away", "gone"]);
    assert_eq!(one.placements.len(), 1);

    let workload = WorkloadReplicas {
        pod: Some(pod("", &[])),
        replicas: 1,
        ..WorkloadReplicas::default()
    };
    let several = PlaceRequest {
        pod: None,
        replicas: 0,
        workloads: vec![workload.clone(), workload],
        ..request
    };
    let several = server.place(several).await;
    assert_eq!(several.unknown_nodes, ["far", "away", "gone"]);

    let fleet = PlaceRequest {
        dialect: Dialect::Fleet.into(),
        holders: vec![Holder {
            node: "lost".into(),
            ..Holder::default()
        }],
        sticky: vec!["n".into(), "former".into()],
        ..place_of(pod("", &[]), 1)
    };
    assert_eq!(server.place(fleet).await.unknown_nodes, ["lost", "former"]);
}
