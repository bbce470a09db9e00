//! The worked examples of Kubernetes' own documents, asked of a real server:
//! KEP-895 (the feature), KEP-3022 (minDomains), KEP-3094 (policies), KEP-3243
//! (matchLabelKeys), the documentation page and the API reference. Drawings
//! show zones, nodes and the pods labelled `foo: bar` on them (P). The
//! incoming pod carries the same label unless an example says otherwise.

mod support;

use evenkeel::proto::v1::{Pod, TopologySpreadConstraint};
use support::build::{
    HOSTNAME, ZONE, hard, node, on, pod, requiring, selecting, soft, spread, tainted, tolerating,
};
use support::world::{Drawn, FOO, world};

/// A pod labelled `foo: bar` with these constraints.
fn incoming(constraints: Vec<TopologySpreadConstraint>) -> Pod {
    spread(pod("incoming", &FOO), constraints)
}

fn score(node: &str, score: i64) -> (String, i64) {
    (node.into(), score)
}

const NOWHERE: [&str; 0] = [];

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
async fn ten_zones() -> support::world::World {
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

/// ```text
/// | zone1 | zone2 | zone3 |
/// |  PPP  |  PPP  |       |
/// ```
const THREE_THREE_NONE: [Drawn; 3] = [
    ("node1", "zone1", 3),
    ("node2", "zone2", 3),
    ("node3", "zone3", 0),
];

#[tokio::test]
async fn kep3094_affinity_policy_decides_whether_zone3_pins_the_minimum() {
    let world = world(&THREE_THREE_NONE).await;
    for (policy, expected) in [
        (None, &["node1", "node2"][..]),
        (Some("Honor"), &["node1", "node2"]),
        (Some("Ignore"), &[]),
    ] {
        let mut zone = hard(1, ZONE, &FOO);
        zone.node_affinity_policy = policy.map(str::to_owned);
        let not_zone3 = requiring(incoming(vec![zone]), ZONE, "NotIn", &["zone3"]);
        assert_eq!(world.feasible(not_zone3).await, expected, "{policy:?}");
    }
}

#[tokio::test]
async fn kep3094_taints_policy_decides_whether_zone3_pins_the_minimum() {
    let dedicated = tainted(
        node("node3", &[(ZONE, "zone3")]),
        "dedicated",
        "x",
        "NoSchedule",
    );
    let world = world(&THREE_THREE_NONE).await.with_node(dedicated).await;
    for (policy, expected, expected_when_tolerated) in [
        (None, &[][..], ["node3"]),
        (Some("Ignore"), &[], ["node3"]),
        (Some("Honor"), &["node1", "node2"], ["node3"]),
    ] {
        let mut zone = hard(1, ZONE, &FOO);
        zone.node_taints_policy = policy.map(str::to_owned);
        let plain = incoming(vec![zone]);
        let tolerant = tolerating(plain.clone(), "dedicated", "Equal", "x", "NoSchedule");
        assert_eq!(world.feasible(plain).await, expected, "{policy:?}");
        assert_eq!(
            world.feasible(tolerant).await,
            expected_when_tolerated,
            "{policy:?}"
        );
    }
}

/// The old replica set has three pods in zone1, the new one has one in zone2.
/// Only the new ones count for a new one.
#[tokio::test]
async fn kep3243_match_label_keys_leave_old_revisions_out() {
    let old = |i: usize| {
        on(
            pod(&format!("old-{i}"), &[("app", "w"), ("hash", "old")]),
            "node1",
        )
    };
    let new = on(pod("new", &[("app", "w"), ("hash", "new")]), "node2");
    let nodes = [("node1", "zone1", 0), ("node2", "zone2", 0)];
    let world = world(&nodes)
        .await
        .with_pod(old(0))
        .await
        .with_pod(old(1))
        .await;
    let world = world.with_pod(old(2)).await.with_pod(new).await;

    let rollout = pod("incoming", &[("app", "w"), ("hash", "new")]);
    let mut zone = hard(1, ZONE, &[("app", "w")]);
    let feasible = world
        .feasible(spread(rollout.clone(), vec![zone.clone()]))
        .await;
    assert_eq!(feasible, ["node2"], "all revisions count: 3 and 1");
    zone.match_label_keys = vec!["hash".into()];
    let feasible = world.feasible(spread(rollout, vec![zone])).await;
    assert_eq!(feasible, ["node1"], "the new revision counts: 0 and 1");
}

fn at_least(min_domains: i32, constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        min_domains: Some(min_domains),
        ..constraint
    }
}

/// ```text
/// | zone1 | zone2 | zone3 |
/// |  PP   |  PP   |  PP   |
/// ```
/// Too few domains make the global minimum 0, so that nothing fits until a
/// new zone appears.
#[tokio::test]
async fn kep3022_fewer_domains_than_min_domains_hold_the_pod_back() {
    let world = world(&[
        ("node1", "zone1", 2),
        ("node2", "zone2", 2),
        ("node3", "zone3", 2),
    ])
    .await;
    for (min_domains, expected) in [
        (1, &["node1", "node2", "node3"][..]),
        (3, &["node1", "node2", "node3"]),
        (4, &[]),
        (5, &[]),
    ] {
        let zone = at_least(min_domains, hard(2, ZONE, &FOO));
        let answer = world.filter(&incoming(vec![zone])).await;
        assert_eq!(answer.feasible, expected, "minDomains {min_domains}");
        let report = &answer.constraints[0];
        assert_eq!(report.min_domains_unmet, min_domains > 3);
        assert_eq!(report.global_minimum, if min_domains > 3 { 0 } else { 2 });
    }
}

/// A cluster autoscaler adds the nodes that `minDomains: 5` by hostname waits
/// for:
/// ```text
/// | a  | b  | c |      | a | b | c | d | e |
/// | PP | PP | P |      | P | P | P | P |   |
/// ```
#[tokio::test]
async fn kep3022_min_domains_by_node() {
    let full = world(&[("a", "z", 2), ("b", "z", 2), ("c", "z", 2)]).await;
    let five = at_least(5, hard(2, HOSTNAME, &FOO));
    assert_eq!(full.feasible(incoming(vec![five.clone()])).await, NOWHERE);
    let room = world(&[("a", "z", 2), ("b", "z", 2), ("c", "z", 1)]).await;
    assert_eq!(room.feasible(incoming(vec![five])).await, ["c"]);
    let nodes = [
        ("a", "z", 1),
        ("b", "z", 1),
        ("c", "z", 1),
        ("d", "z", 1),
        ("e", "z", 0),
    ];
    let grown = world(&nodes).await;
    let five = at_least(5, hard(1, HOSTNAME, &FOO));
    assert_eq!(grown.feasible(incoming(vec![five])).await, ["e"]);
}

/// A pod that its own selector does not match adds nothing to the skew.
#[tokio::test]
async fn kep3022_min_domains_and_a_selector_that_misses_the_pod() {
    let world = world(&[
        ("node1", "zone1", 1),
        ("node2", "zone2", 1),
        ("node3", "zone3", 1),
    ])
    .await;
    let five = at_least(5, hard(1, ZONE, &FOO));
    let other = spread(pod("incoming", &[("x", "y")]), vec![five]);
    assert_eq!(world.feasible(other).await, ["node1", "node2", "node3"]);
}

/// ```text
/// |     zoneA     |     zoneB     |
/// | node1 | node2 | node3 | node4 |
/// |   P   |   P   |   P   |       |
/// ```
const DOCS: [Drawn; 4] = [
    ("node1", "zoneA", 1),
    ("node2", "zoneA", 1),
    ("node3", "zoneB", 1),
    ("node4", "zoneB", 0),
];

#[tokio::test]
async fn docs_one_constraint() {
    let world = world(&DOCS).await;
    assert_eq!(
        world.feasible(incoming(vec![hard(1, ZONE, &FOO)])).await,
        ["node3", "node4"]
    );
}

#[tokio::test]
async fn docs_multiple_constraints() {
    let world = world(&DOCS).await;
    let both = vec![hard(1, ZONE, &FOO), hard(1, HOSTNAME, &FOO)];
    assert_eq!(world.feasible(incoming(both)).await, ["node4"]);
}

/// ```text
/// |     zoneA     | zoneB |
/// | node1 | node2 | node3 |
/// |  PP   |   P   |  PP   |
/// ```
/// The first constraint allows only zoneB, the second only node2.
#[tokio::test]
async fn docs_conflicting_constraints() {
    let world = world(&[
        ("node1", "zoneA", 2),
        ("node2", "zoneA", 1),
        ("node3", "zoneB", 2),
    ])
    .await;
    let (zone, host) = (hard(1, ZONE, &FOO), hard(1, HOSTNAME, &FOO));
    assert_eq!(
        world.feasible(incoming(vec![zone.clone()])).await,
        ["node3"]
    );
    assert_eq!(
        world.feasible(incoming(vec![host.clone()])).await,
        ["node2"]
    );
    assert_eq!(world.feasible(incoming(vec![zone, host])).await, NOWHERE);
}

#[tokio::test]
async fn docs_zone_excluded_by_affinity() {
    let mut nodes = DOCS.to_vec();
    nodes.push(("node5", "zoneC", 0));
    let world = world(&nodes).await;
    let incoming = incoming(vec![hard(1, ZONE, &FOO)]);
    assert_eq!(world.feasible(incoming.clone()).await, ["node5"]);
    let not_zone_c = requiring(incoming, ZONE, "NotIn", &["zoneC"]);
    assert_eq!(world.feasible(not_zone_c).await, ["node3", "node4"]);
}

/// ```text
/// | zone1 | zone2 | zone3 |
/// |  P P  |  P P  |   P   |
/// ```
#[tokio::test]
async fn api_reference_max_skew() {
    let world = world(&[
        ("node1", "zone1", 2),
        ("node2", "zone2", 2),
        ("node3", "zone3", 1),
    ])
    .await;
    assert_eq!(
        world.feasible(incoming(vec![hard(1, ZONE, &FOO)])).await,
        ["node3"]
    );
    let feasible = world.feasible(incoming(vec![hard(2, ZONE, &FOO)])).await;
    assert_eq!(feasible, ["node1", "node2", "node3"]);
}

/// ```text
/// | zone1 | zone2 | zone3 |
/// | P P P |   P   |   P   |
/// ```
#[tokio::test]
async fn api_reference_when_unsatisfiable() {
    let world = world(&[
        ("node1", "zone1", 3),
        ("node2", "zone2", 1),
        ("node3", "zone3", 1),
    ])
    .await;
    let feasible = world.feasible(incoming(vec![hard(1, ZONE, &FOO)])).await;
    assert_eq!(feasible, ["node2", "node3"]);
    let scores = world.scores(incoming(vec![soft(1, ZONE, &FOO)])).await;
    assert_eq!(
        scores,
        [score("node1", 40), score("node2", 100), score("node3", 100)]
    );
}
