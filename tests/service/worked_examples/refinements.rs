//! Later additions: KEP-3022 (minDomains), KEP-3094 (policies), KEP-3243 (matchLabelKeys); the
//! documentation page and the API reference.

use evenkeel::proto::v1::TopologySpreadConstraint;

use crate::worked_examples::{incoming, score};
use support::build::{
    HOSTNAME, ZONE, hard, node, on, pod, requiring, soft, spread, tainted, tolerating,
};
use support::world::{Drawn, FOO, world};

const NOWHERE: [&str; 0] = [];

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

/// The old replica set has three pods in zone1, the new one has one in zone2. Only pods of the new
/// one count for a pod of the new one.
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
