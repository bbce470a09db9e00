//! The hints about a pod that fits nowhere: how far off it is.

use evenkeel::proto::v1::hint::Kind;

use super::Case;
use super::hints::{WEB, and, case, state, web, without, zonal, zone};
use support::build::{HOSTNAME, ZONE, cordoned, hard, node};
use support::model::Stored;

/// Cases of a pod that fits nowhere, and cases without these hints.
pub(super) fn cases() -> Vec<Case> {
    // Zone c has room and is cordoned, so the pod can only go to a or b.
    let blocked = || {
        let shut = cordoned(node("c1", &[(ZONE, "c")])).change();
        and(state(&[("a1", "a", 3), ("b1", "b", 2)]), [shut])
    };
    let open = || state(&[("a1", "a", 3), ("b1", "b", 2), ("c1", "c", 0)]);
    // The constraint on zones allows only b, the one on nodes only a2: no node is both.
    let crossed = || state(&[("a1", "a", 2), ("a2", "a", 0), ("b1", "b", 1)]);
    let both = || web(vec![zone(1), hard(1, HOSTNAME, &WEB)]);
    // As `crossed`, but there are more nodes in b than in a.
    let agreed = || state(&[("a1", "a", 2), ("b1", "b", 1), ("b2", "b", 0)]);
    vec![
        zonal(
            "nothing fits",
            blocked(),
            Kind::MaxSkew,
            &[
                "maxSkew 3 is the smallest",
                "1 node (topology.kubernetes.io/zone=b)",
                "it is 1 now",
            ],
        ),
        without("something fits", open(), Kind::MaxSkew),
        zonal(
            "too many where it could go",
            blocked(),
            Kind::FewerPods,
            &["2 matching pods fewer in b", "counts 2", "allows none"],
        ),
        without("not too many", open(), Kind::FewerPods),
        case(
            "too few where something could go",
            crossed(),
            both(),
            Kind::MorePods,
            Some(&["1 matching pod (1 more in b)", "to 2", "a2"]),
        ),
        without("too few where nothing can go", blocked(), Kind::MorePods),
        case(
            "two constraints that exclude each other",
            crossed(),
            both(),
            Kind::Conflict,
            Some(&[
                "constraint 0",
                "1 node (topology.kubernetes.io/zone=b)",
                "constraint 1",
                "1 node (kubernetes.io/hostname=a2)",
                "no node satisfies both",
            ]),
        ),
        case(
            "two constraints that agree",
            agreed(),
            both(),
            Kind::Conflict,
            None,
        ),
    ]
}
