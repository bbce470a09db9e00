//! The hints about nodes that have too little room for a pod, or that are promised to
//! another one.

use evenkeel::proto::v1::Change;
use evenkeel::proto::v1::hint::Kind;

use super::Case;
use super::hints::{WEB, and, case, state, web, without, zonal, zone};
use support::build::{ZONE, hard, having, node, nominated, on, pod, requesting, spread};
use support::model::Stored;

/// Three nodes with 2 processors, each with a pod of 1500m; c1 takes this many pods.
fn crowded(pods: &str) -> Vec<Change> {
    let roomy = |name: &str, pods: &str| {
        let node = node(name, &[(ZONE, &name[..1])]);
        let has = [("cpu", "2"), ("memory", "4Gi"), ("pods", pods)];
        having(node, &has).change()
    };
    let running = |name: &str| {
        let running = requesting(pod(&format!("{name}-0"), &[]), &[("cpu", "1500m")]);
        on(running, name).change()
    };
    let nodes = [roomy("a1", "9"), roomy("b1", "9"), roomy("c1", pods)];
    let pods = ["a1", "b1", "c1"].map(running);
    nodes.into_iter().chain(pods).collect()
}

/// Cases of nodes with too little of a resource.
pub(super) fn room() -> Vec<Case> {
    let asks = |requests: &[(&str, &str)]| requesting(pod("next", &WEB), requests);
    vec![
        case(
            "too little of one thing",
            crowded("1"),
            asks(&[("cpu", "2")]),
            Kind::Room,
            Some(&[
                "3 nodes have too little cpu for the 2 that it requests: 1500m more, or a request \
                 of 500m, would let it onto 2 of them (a1 and b1)",
            ]),
        ),
        case(
            "too little even when empty",
            crowded("1"),
            asks(&[("memory", "5Gi")]),
            Kind::Room,
            Some(&[
                "3 nodes have too little memory for the 5Gi that it requests, even without pods: \
                 1Gi more, or a request of 4Gi, would let it onto 2 of them (a1 and b1)",
            ]),
        ),
        case(
            "too many pods",
            crowded("1"),
            asks(&[("cpu", "500m")]),
            Kind::Room,
            Some(&["1 node has as many pods as it takes: 1 pod fewer would let it onto c1"]),
        ),
        case(
            "too little of everything",
            crowded("9"),
            asks(&[("cpu", "3"), ("memory", "5Gi")]),
            Kind::Room,
            Some(&[
                "3 nodes have too little cpu for the 3 that it requests, even without pods: 2500m \
                 or more is missing, and more cpu alone would let it onto none of them",
            ]),
        ),
        case(
            "a constraint besides",
            crowded("9"),
            spread(asks(&[("cpu", "1")]), vec![hard(1, "rack", &WEB)]),
            Kind::Room,
            Some(&["500m or more is missing, and more cpu alone would let it onto none of them"]),
        ),
        case(
            "room",
            crowded("1"),
            pod("next", &WEB),
            Kind::Conflict,
            None,
        ),
        case(
            "no node that says what it has",
            state(&[("a1", "a", 0)]),
            asks(&[("cpu", "64")]),
            Kind::Room,
            None,
        ),
    ]
}

/// Cases of nodes that are promised to another pod.
pub(super) fn nominations() -> Vec<Case> {
    let promised = |node, priority| {
        let waiting = nominated(pod("waiting", &WEB), node, priority);
        and(state(&[("a1", "a", 1), ("b1", "b", 1)]), [waiting.change()])
    };
    let mut urgent = web(vec![zone(1)]);
    urgent.spec.get_or_insert_default().priority = Some(8);
    vec![
        zonal(
            "a node that is promised to another pod",
            promised("a1", 7),
            Kind::NominatedPods,
            &[
                "1 node (a1) would take it but for a pod nominated there, which is of at least \
                 its priority and counts as if it were there. With a priority above 7 it could \
                 go to 1 node more",
            ],
        ),
        zonal(
            "one whose priority users cannot exceed",
            promised("a1", 2_000_000_000),
            Kind::NominatedPods,
            &["1 node (a1) would take it but for a pod nominated there"],
        ),
        case(
            "a pod of a higher priority",
            promised("a1", 7),
            urgent,
            Kind::NominatedPods,
            None,
        ),
        without(
            "a node that would refuse it anyway",
            and(promised("a1", 7), [on(pod("a1-more", &WEB), "a1").change()]),
            Kind::NominatedPods,
        ),
    ]
}
