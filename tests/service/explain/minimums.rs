//! The hints about the minimum of a constraint: domains that keep it low and cannot
//! be used, and domains that are missing.

use evenkeel::proto::v1::TopologySpreadConstraint;
use evenkeel::proto::v1::hint::Kind;

use super::Case;
use super::hints::{WEB, and, case, state, web, without, zonal, zone};
use support::build::{ZONE, cordoned, node, on, pod, selecting, tainted};
use support::model::Stored;

/// Cases of domains that keep the minimum low, and of missing domains.
pub(super) fn cases() -> Vec<Case> {
    let full = || state(&[("a1", "a", 1), ("b1", "b", 1)]);
    let gpu = |name, zone| tainted(node(name, &[(ZONE, zone)]), "gpu", "", "NoSchedule").change();
    let closed = |name, taint| tainted(node(name, &[(ZONE, "c")]), taint, "", "NoSchedule");
    let wanting = |domains| {
        let constraint = TopologySpreadConstraint {
            min_domains: Some(domains),
            ..zone(1)
        };
        web(vec![constraint])
    };
    let outside = TopologySpreadConstraint {
        node_affinity_policy: Some("Ignore".into()),
        ..zone(1)
    };
    let inside_a_b = |constraint| {
        let small = [("size", "small")];
        let mut state = Vec::new();
        for (name, zone) in [("a1", "a"), ("b1", "b")] {
            state.push(node(name, &[(ZONE, zone), small[0]]).change());
            state.push(on(pod(&format!("{name}-0"), &WEB), name).change());
        }
        state.push(node("c1", &[(ZONE, "c")]).change());
        (state, selecting(web(vec![constraint]), &small))
    };
    let (excluding, outside) = inside_a_b(outside);
    vec![
        zonal(
            "an empty domain that is tainted",
            and(full(), [gpu("c1", "c")]),
            Kind::UnusableDomain,
            &[
                "c of",
                "minimum at 0",
                "1 node is tainted",
                "nodeTaintsPolicy: Honor",
                "2 nodes",
            ],
        ),
        zonal(
            "an empty domain that is cordoned",
            and(full(), [cordoned(node("c1", &[(ZONE, "c")])).change()]),
            Kind::UnusableDomain,
            &[
                "1 node is cordoned",
                "If you uncordon c1, the pod can go to 1 node",
            ],
        ),
        zonal(
            "an empty domain that is cordoned, as kubectl does it, and a policy that would do",
            and(
                full(),
                [cordoned(closed("c1", "node.kubernetes.io/unschedulable")).change()],
            ),
            Kind::UnusableDomain,
            &[
                "1 node is cordoned",
                "If you uncordon c1, the pod can go to 1 node",
            ],
        ),
        zonal(
            "an empty domain that is cordoned and has another taint, too",
            and(full(), [cordoned(closed("c1", "gpu")).change()]),
            Kind::UnusableDomain,
            &["1 node is cordoned", "With nodeTaintsPolicy: Honor"],
        ),
        case(
            "an empty domain that the pod's selector excludes",
            excluding,
            outside,
            Kind::UnusableDomain,
            Some(&[
                "1 node does not match its node affinity",
                "nodeAffinityPolicy: Honor",
                "2 nodes",
            ]),
        ),
        without(
            "an empty domain with a node to use beside the tainted one",
            and(
                full(),
                [gpu("c1", "c"), node("c2", &[(ZONE, "c")]).change()],
            ),
            Kind::UnusableDomain,
        ),
        case(
            "an empty domain that is tainted and does no harm",
            and(full(), [gpu("c1", "c")]),
            web(vec![zone(2)]),
            Kind::UnusableDomain,
            None,
        ),
        case(
            "two domains of three",
            full(),
            wanting(3),
            Kind::MinDomains,
            Some(&[
                "wants 3 domains",
                "2 domains (a and b)",
                "1 is missing",
                "minDomains: 2",
                "2 nodes",
            ]),
        ),
        case(
            "two domains of two",
            full(),
            wanting(2),
            Kind::MinDomains,
            None,
        ),
    ]
}
