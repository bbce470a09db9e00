//! KEP-895: the feature itself.

use crate::worked_examples::{incoming, score};
use support::build::{HOSTNAME, ZONE, hard, requiring, selecting, soft};
use support::world::{Drawn, FOO, World, world};

/// ```text
/// | zone1 | zone2 | zone3 |
/// |   P   |   P   |       |
/// ```
const ONE_ONE_NONE: [Drawn; 3] = [
    ("node1", "zone1", 1),
    ("node2", "zone2", 1),
    ("node3", "zone3", 0),
];

#[tokio::test]
async fn kep895_max_skew_1_leaves_only_the_empty_zone() {
    let world = world(&ONE_ONE_NONE).await;
    assert_eq!(
        world.feasible(incoming(vec![hard(1, ZONE, &FOO)])).await,
        ["node3"]
    );
}

#[tokio::test]
async fn kep895_max_skew_2_allows_any_zone() {
    let world = world(&ONE_ONE_NONE).await;
    let feasible = world.feasible(incoming(vec![hard(2, ZONE, &FOO)])).await;
    assert_eq!(feasible, ["node1", "node2", "node3"]);
}

#[tokio::test]
async fn kep895_schedule_anyway_prefers_the_empty_zone() {
    let world = world(&ONE_ONE_NONE).await;
    let scores = world.scores(incoming(vec![soft(1, ZONE, &FOO)])).await;
    assert_eq!(
        scores,
        [score("node1", 0), score("node2", 0), score("node3", 100)]
    );
}

/// ```text
/// |         zone1         |         zone2         |  zone3 |
/// | node1a  node1b node1c | node2a  node2b node2c | node3a |
/// |   P       PP          |   PP                  |   P    |
/// ```
const THREE_TWO_ONE: [Drawn; 7] = [
    ("node1a", "zone1", 1),
    ("node1b", "zone1", 2),
    ("node1c", "zone1", 0),
    ("node2a", "zone2", 2),
    ("node2b", "zone2", 0),
    ("node2c", "zone2", 0),
    ("node3a", "zone3", 1),
];

#[tokio::test]
async fn kep895_spread_by_zone() {
    let world = world(&THREE_TWO_ONE).await;
    assert_eq!(
        world.feasible(incoming(vec![hard(1, ZONE, &FOO)])).await,
        ["node3a"]
    );
}

#[tokio::test]
async fn kep895_spread_by_node() {
    let world = world(&THREE_TWO_ONE).await;
    let feasible = world
        .feasible(incoming(vec![hard(1, HOSTNAME, &FOO)]))
        .await;
    assert_eq!(feasible, ["node1c", "node2b", "node2c"]);
}

#[tokio::test]
async fn kep895_zone_and_node_both_count_towards_the_score() {
    let world = world(&THREE_TWO_ONE).await;
    let both = vec![soft(1, ZONE, &FOO), soft(1, HOSTNAME, &FOO)];
    let scores = world.scores(incoming(both)).await;
    let zone1 = [
        score("node1a", 55),
        score("node1b", 33),
        score("node1c", 77),
    ];
    let zone2 = [
        score("node2a", 44),
        score("node2b", 100),
        score("node2c", 100),
    ];
    assert_eq!(
        scores,
        [&zone1[..], &zone2[..], &[score("node3a", 88)]].concat()
    );
}

/// ```text
/// | zone1 | zone2 |
/// | a   b | x   y |
/// | P   P | P     |
/// ```
const TWO_ONE: [Drawn; 4] = [
    ("a", "zone1", 1),
    ("b", "zone1", 1),
    ("x", "zone2", 1),
    ("y", "zone2", 0),
];

#[tokio::test]
async fn kep895_two_hard_constraints_are_anded_in_any_order() {
    let world = world(&TWO_ONE).await;
    let (zone, host) = (hard(1, ZONE, &FOO), hard(1, HOSTNAME, &FOO));
    let feasible = world
        .feasible(incoming(vec![zone.clone(), host.clone()]))
        .await;
    assert_eq!(feasible, ["y"]);
    assert_eq!(world.feasible(incoming(vec![host, zone])).await, ["y"]);
}

#[tokio::test]
async fn kep895_hard_by_zone_and_soft_by_node() {
    let world = world(&TWO_ONE).await;
    let constraints = vec![hard(1, ZONE, &FOO), soft(1, HOSTNAME, &FOO)];
    assert_eq!(
        world.scores(incoming(constraints)).await,
        [score("x", 0), score("y", 100)]
    );
}

/// Zones 1 to 10 with a node each; two pods in zone1, one in zone2.
async fn ten_zones() -> World {
    let names: Vec<(String, String)> = (1..=10)
        .map(|i| (format!("node{i}"), format!("zone{i}")))
        .collect();
    let pods = |index| [2, 1].get(index).copied().unwrap_or(0);
    let drawn: Vec<Drawn> = names
        .iter()
        .enumerate()
        .map(|(i, (n, z))| (n.as_str(), z.as_str(), pods(i)))
        .collect();
    world(&drawn).await
}

#[tokio::test]
async fn kep895_only_zones_that_the_affinity_allows_are_domains() {
    let incoming = incoming(vec![hard(1, ZONE, &FOO)]);
    let two_zones = requiring(incoming, ZONE, "In", &["zone1", "zone2"]);
    assert_eq!(ten_zones().await.feasible(two_zones).await, ["node2"]);
}

#[tokio::test]
async fn kep895_only_the_zone_of_the_node_selector_is_a_domain() {
    let incoming = incoming(vec![hard(1, ZONE, &FOO)]);
    let one_zone = selecting(incoming, &[(ZONE, "zone1")]);
    assert_eq!(ten_zones().await.feasible(one_zone).await, ["node1"]);
}
