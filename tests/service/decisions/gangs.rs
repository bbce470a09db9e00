//! Several workloads placed together: each takes room that those before it leave; all or nothing.

use std::time::Duration;

use evenkeel::proto::v1::{
    Completeness, NodeCapacity, PlaceRequest, PlaceResponse, Planning, WorkloadReplicas,
};
use support::build::{ZONE, hard, having, hold_of, node, pod, requesting, soft, spread, zones};
use support::model::Stored;
use support::server::Server;

/// A label of all workloads: a constraint that selects it counts the pods of all of them.
const SHOP: [(&str, &str); 1] = [("part-of", "shop")];

pub(crate) fn workload(
    name: &str,
    replicas: i32,
    cpu: &str,
    constraints: &[(&str, i32, bool)],
) -> WorkloadReplicas {
    let labels = [SHOP[0], ("app", name)];
    let constraints = constraints.iter().map(|(key, max_skew, is_shared)| {
        let selects: &[(&str, &str)] = if *is_shared { &SHOP } else { &labels[1..] };
        match max_skew {
            0 => soft(1, key, selects),
            _ => hard(*max_skew, key, selects),
        }
    });
    let template = spread(pod("", &labels), constraints.collect());
    WorkloadReplicas {
        pod: Some(requesting(template, &[("cpu", cpu)])),
        replicas,
        ..Default::default()
    }
}

pub(crate) fn together(workloads: Vec<WorkloadReplicas>) -> PlaceRequest {
    PlaceRequest {
        workloads,
        ..PlaceRequest::default()
    }
}

pub(crate) fn all_or_nothing(request: &PlaceRequest) -> PlaceRequest {
    PlaceRequest {
        completeness: Completeness::AllOrNothing.into(),
        ..request.clone()
    }
}

/// The picks of an answer, in order: workload and node.
pub(crate) fn picks(answer: &PlaceResponse) -> Vec<(usize, String)> {
    let picks = answer.placements.iter();
    picks
        .map(|it| (it.workload as usize, it.node.clone()))
        .collect()
}

/// One selector counts both workloads, so the second one goes where the first is not.
#[tokio::test]
async fn the_next_workload_sees_the_picks_of_the_first() {
    let server = Server::start().await;
    server.update("", zones(&["a", "b"])).await;
    let over_zones = [(ZONE, 1, true)];
    let one = |name| workload(name, 1, "1", &over_zones);
    let mut request = together(vec![one("web"), one("db")]);
    let answer = server.place(request.clone()).await;
    let expected = [(0, "a".to_owned()), (1, "b".to_owned())];
    assert_eq!(picks(&answer), expected);
    let counts = |at: usize| -> Vec<i64> {
        let report = &answer.workloads[at].constraints_before[0];
        report.domains.iter().map(|it| it.matching_pods).collect()
    };
    assert_eq!((counts(0), counts(1)), (vec![0, 0], vec![0, 1]));

    // All workloads of a request share the capacities that it states.
    request.capacities = vec![
        NodeCapacity {
            node: "a".into(),
            replicas: 1,
        },
        NodeCapacity {
            node: "b".into(),
            replicas: 0,
        },
    ];
    let answer = server.place(request).await;
    assert_eq!(
        (picks(&answer), answer.unplaced),
        (vec![(0, "a".to_owned())], 1)
    );
    assert_eq!(answer.workloads[1].unplaced, 1);
}

/// A replica that finds no node keeps all others from being placed and reserved.
#[tokio::test]
async fn a_gang_is_reserved_whole_or_not_at_all() {
    let server = Server::start().await;
    let nodes = ["a", "b"].map(|name| node(name, &[(ZONE, name)]));
    let nodes = nodes.map(|it| having(it, &[("cpu", "2"), ("pods", "9")]).change());
    server.update("", nodes.to_vec()).await;
    let request = |db: i32| PlaceRequest {
        reserve: hold_of(pod("", &[]), 1, Duration::from_secs(60)).reserve,
        ..all_or_nothing(&together(vec![
            workload("web", 2, "1", &[(ZONE, 1, false)]),
            workload("db", db, "1", &[]),
        ]))
    };
    let refused = server.place(request(3)).await;
    assert_eq!((picks(&refused), refused.unplaced), (vec![], 5));
    let [web, db] = &*refused.workloads else {
        panic!("{refused:?}");
    };
    assert!(web.reasons.is_empty() && web.placed_count == 0, "{web:?}");
    assert_eq!(web.constraints, web.constraints_before);
    assert_eq!(db.reasons[0].reason, "Insufficient cpu");
    assert!(server.held().await.is_empty());

    let placed = server.place(request(2)).await;
    assert_eq!((placed.placements.len(), placed.unplaced), (4, 0));
    let held = server.held().await;
    let of = |app: &str| held.values().filter(|it| it.labels["app"] == app).count();
    assert_eq!((of("web"), of("db")), (2, 2));
    for pick in &placed.placements {
        let app = ["web", "db"][pick.workload as usize];
        let held = &held[&pick.reservation_id];
        assert_eq!((held.labels["app"].as_str(), &held.node), (app, &pick.node));
    }

    // One workload can be a gang too.
    let alone = PlaceRequest {
        pod: request(1).workloads[1].pod.clone(),
        replicas: 1,
        workloads: vec![],
        ..request(1)
    };
    let refused = server.place(alone).await;
    assert_eq!((refused.placements.len(), refused.unplaced), (0, 1));
}

/// A workload after another one that is not placed whole is not placed either.
#[tokio::test]
async fn what_comes_after_waits_for_what_comes_before() {
    let server = Server::start().await;
    let nodes = ["a", "b"]
        .map(|name| having(node(name, &[(ZONE, name)]), &[("cpu", "2"), ("pods", "9")]).change());
    server.update("", nodes.to_vec()).await;
    let after = |replicas: i32, cpu: &str| WorkloadReplicas {
        after_previous: true,
        ..workload("web", replicas, cpu, &[])
    };
    let first = workload("web", 1, "1", &[]);
    let request = together(vec![
        first.clone(),
        after(1, "3"),
        after(1, "1"),
        first.clone(),
    ]);
    for planning in [Planning::Greedy, Planning::Joint] {
        let request = PlaceRequest {
            planning: planning.into(),
            ..request.clone()
        };
        let answer = server.place(request).await;
        let placed: Vec<i32> = answer.workloads.iter().map(|it| it.placed_count).collect();
        assert_eq!(placed, [1, 0, 0, 1], "{planning:?}");
        assert!(answer.workloads[2].reasons.is_empty());
        assert_eq!(answer.unplaced, 2);
    }
}
