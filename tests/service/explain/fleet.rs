//! The hints about dead ends of KubeFleet's rules: cases where each must appear, and where it must
//! not.

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::hint::Kind;
use evenkeel::proto::v1::{
    Change, Dialect, ExplainRequest, ExplainResponse, FilterRequest, Hint, Pod,
    TopologySpreadConstraint,
};

use support::build::{hard, node, on, pod, soft, spread, tainted, terminating};
use support::model::Stored;
use support::server::Server;

/// A state, a question about it, and a hint that is expected or not.
struct Case {
    name: &'static str,
    changes: Vec<Change>,
    pod: Pod,
    kind: Kind,
    /// Parts of the message; `None` when there must be no such hint.
    says: Option<&'static [&'static str]>,
}

fn of_kind(answer: &ExplainResponse, kind: Kind) -> Option<&Hint> {
    answer.hints.iter().find(|hint| hint.kind() == kind)
}

/// Checks that an answer has the hint that a case expects, or lacks it.
fn check(case: &Case, answer: &ExplainResponse) {
    let found = of_kind(answer, case.kind);
    match (case.says, found) {
        (None, None) => {}
        (None, Some(hint)) => panic!("{}: unexpected: {}", case.name, hint.message),
        (Some(_), None) => panic!("{}: no hint: {answer:?}", case.name),
        (Some(parts), Some(hint)) => {
            for part in parts {
                let message = &hint.message;
                assert!(
                    message.contains(part),
                    "{}: {part:?} in {message:?}",
                    case.name
                );
            }
        }
    }
}

const CRP: [(&str, &str); 1] = [("crp", "web")];

/// Clusters in regions, some of which hold the placement.
fn fleet(clusters: &[(&str, &str, bool)]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, region, holds) in clusters {
        changes.push(node(name, &[("region", region), ("ring", &name[1..])]).change());
        if *holds {
            changes.push(on(pod(&format!("on-{name}"), &CRP), name).change());
        }
    }
    changes
}

fn by(key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: None,
        ..hard(1, key, &[])
    }
}

fn placement(constraints: Vec<TopologySpreadConstraint>) -> Pod {
    spread(pod("", &CRP), constraints)
}

fn with(mut state: Vec<Change>, change: Change) -> Vec<Change> {
    state.push(change);
    state
}

fn cases() -> Vec<Case> {
    let even = || {
        fleet(&[
            ("e1", "east", true),
            ("e2", "east", false),
            ("w1", "west", true),
            ("w2", "west", false),
        ])
    };
    let grown = |holding: &[&'static str]| {
        let names = ["e1", "e2", "e3", "e4", "e5", "n1", "n2"];
        let region = |name: &str| {
            if name.starts_with('e') {
                "east"
            } else {
                "north"
            }
        };
        let clusters: Vec<_> = names
            .iter()
            .map(|name| (*name, region(name), holding.contains(name)))
            .collect();
        fleet(&clusters)
    };
    let gpu = || tainted(node("n1", &[("region", "north")]), "gpu", "", "NoSchedule").change();
    // The regions allow only the west, the rings only ring 3, and no cluster is in both.
    let crossed = || {
        fleet(&[
            ("e1", "east", true),
            ("e2", "east", true),
            ("e3", "east", false),
            ("w1", "west", true),
            ("w2", "west", false),
        ])
    };
    let one = || placement(vec![by("region")]);
    let both = || placement(vec![by("region"), by("ring")]);
    let mut lenient = soft(1, "region", &[]);
    lenient.label_selector = None;
    vec![
        Case {
            name: "a new, empty region beside four holders",
            changes: grown(&["e1", "e2", "e3", "e4"]),
            pod: one(),
            kind: Kind::FleetSkewTooLarge,
            says: Some(&[
                "0 in north",
                "4 in east",
                "a skew of 4",
                "maxSkew: 3",
                "2 clusters",
            ]),
        },
        Case {
            name: "a new, empty region beside one holder",
            changes: grown(&["e1"]),
            pod: one(),
            kind: Kind::FleetSkewTooLarge,
            says: None,
        },
        Case {
            name: "a region whose one cluster is tainted",
            changes: with(even(), gpu()),
            pod: one(),
            kind: Kind::FleetUnusableDomain,
            says: Some(&[
                "north",
                "stays at 0",
                "1 of its clusters",
                "tainted",
                "gets past 1",
            ]),
        },
        Case {
            name: "regions that all have a cluster left",
            changes: even(),
            pod: one(),
            kind: Kind::FleetUnusableDomain,
            says: None,
        },
        Case {
            name: "two constraints that no cluster left satisfies together",
            changes: crossed(),
            pod: both(),
            kind: Kind::FleetGreedy,
            says: Some(&[
                "constraint 0 (region) admits 1 cluster",
                "constraint 1 (ring) admits 1 cluster",
                "no cluster satisfies all 2",
            ]),
        },
        Case {
            name: "one constraint",
            changes: crossed(),
            pod: one(),
            kind: Kind::FleetGreedy,
            says: None,
        },
        Case {
            name: "the only region that could grow is full",
            changes: with(fleet(&[("e1", "east", true), ("e2", "east", false)]), gpu()),
            pod: one(),
            kind: Kind::MaxSkew,
            says: Some(&["maxSkew 2 is the smallest", "1 cluster", "it is 1 now"]),
        },
        Case {
            name: "something can be picked",
            changes: even(),
            pod: one(),
            kind: Kind::MaxSkew,
            says: None,
        },
        Case {
            name: "a cluster outside of all regions",
            changes: with(even(), node("x1", &[]).change()),
            pod: one(),
            kind: Kind::MissingKey,
            says: Some(&["1 of 5 clusters lacks", "never refuses", "x1"]),
        },
        Case {
            name: "clusters in regions",
            changes: even(),
            pod: one(),
            kind: Kind::MissingKey,
            says: None,
        },
        Case {
            name: "a soft constraint",
            changes: even(),
            pod: placement(vec![lenient]),
            kind: Kind::Soft,
            says: Some(&["loses 1000 points", "still be picked"]),
        },
        Case {
            name: "a hard constraint",
            changes: even(),
            pod: one(),
            kind: Kind::Soft,
            says: None,
        },
        Case {
            name: "a selector that is not the placement's",
            changes: even(),
            pod: placement(vec![hard(1, "region", &[("crp", "db")])]),
            kind: Kind::SelfMismatch,
            says: Some(&["constraint 0 (region)", "does not match", "not counted"]),
        },
        Case {
            name: "a selector that is the placement's",
            changes: even(),
            pod: placement(vec![hard(1, "region", &CRP)]),
            kind: Kind::SelfMismatch,
            says: None,
        },
        Case {
            name: "a region without a name",
            changes: with(even(), node("x1", &[("region", "")]).change()),
            pod: one(),
            kind: Kind::EmptyValue,
            says: Some(&["1 cluster has", "a domain of its own", "x1"]),
        },
        Case {
            name: "regions with names",
            changes: even(),
            pod: one(),
            kind: Kind::EmptyValue,
            says: None,
        },
        Case {
            name: "a holder on its way out",
            changes: with(even(), terminating(on(pod("on-e2", &CRP), "e2")).change()),
            pod: one(),
            kind: Kind::TerminatingPods,
            says: Some(&["1 placement", "is terminating", "not counted any more"]),
        },
        Case {
            name: "somebody else's holder on its way out",
            changes: with(
                even(),
                terminating(on(pod("other", &[("crp", "db")]), "e2")).change(),
            ),
            pod: one(),
            kind: Kind::TerminatingPods,
            says: None,
        },
    ]
}

/// Checks that the suggestion of a hint admits as many clusters as it says, and that a max skew of
/// one less admits none.
async fn keeps_its_word(server: &Server, request: &ExplainRequest, case: &Case, hint: &Hint) {
    let Some(suggested) = &hint.suggested_constraint else {
        return;
    };
    let holders: Vec<&str> = case
        .changes
        .iter()
        .filter_map(|change| match &change.object {
            Some(Object::Pod(pod)) => pod.spec.as_ref().map(|spec| &*spec.node_name),
            _ => None,
        })
        .collect();
    for (max_skew, expected) in [
        (suggested.max_skew, hint.admitted_node_count),
        (suggested.max_skew - 1, 0),
    ] {
        let mut pod = case.pod.clone();
        let spec = pod.spec.as_mut().expect("it has constraints");
        spec.topology_spread_constraints[hint.constraint_index as usize] =
            TopologySpreadConstraint {
                max_skew,
                ..suggested.clone()
            };
        let filter = FilterRequest {
            snapshot: request.snapshot.clone(),
            pod: Some(pod),
            dialect: request.dialect,
            ..Default::default()
        };
        let mut feasible = server.filter(filter).await.feasible;
        feasible.retain(|cluster| !holders.contains(&&**cluster));
        let place = format!("{}, maxSkew {max_skew}", case.name);
        assert_eq!(feasible.len() as i64, expected, "{place}: {hint:?}");
    }
}

#[tokio::test]
async fn the_dead_ends_of_a_fleet_are_told_where_they_are() {
    let server = Server::start().await;
    for (index, case) in cases().into_iter().enumerate() {
        let snapshot = format!("case-{index}");
        server.update(&snapshot, case.changes.clone()).await;
        let request = ExplainRequest {
            snapshot,
            pod: Some(case.pod.clone()),
            dialect: Dialect::Fleet as i32,
            ..Default::default()
        };
        let answer = server.explain(request.clone()).await;
        check(&case, &answer);
        for hint in &answer.hints {
            keeps_its_word(&server, &request, &case, hint).await;
        }
    }
}
