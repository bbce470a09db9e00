//! Many clients at once.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use evenkeel::proto::v1::{
    FilterRequest, PlaceRequest, ReleaseReservationsRequest, Reservation, ScoreRequest, View,
};

use super::held::{Held, WEB, template};
use support::build::{HOSTNAME, ZONE, hard, node, on, place_of, pod, spread};
use support::model::Stored;
use support::server::Server;

const CLIENTS: usize = 32;
const CALLS: usize = 20;
const REPLICAS: i32 = 5;

/// However many clients place at once, none decides on what another is about to take: the spread
/// holds after every pick.
#[tokio::test(flavor = "multi_thread")]
async fn the_spread_holds_among_many_clients() {
    let server = Server::start().await;
    // Each zone has as many nodes as the others, because otherwise the two constraints exclude each
    // other.
    let nodes = (0..98).map(|i| node(&format!("n{i}"), &[(ZONE, &format!("z{}", i % 7))]));
    server.update("", nodes.map(Stored::change).collect()).await;
    let constraints = vec![hard(1, ZONE, &WEB), hard(1, HOSTNAME, &WEB)];
    let request = PlaceRequest {
        reserve: Some(Reservation {
            owner: "crowd".into(),
            ttl: Some(Duration::from_secs(600).into()),
        }),
        ..place_of(spread(pod("", &WEB), constraints), REPLICAS)
    };
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (mut client, request) = (server.another_client().await, request.clone());
        clients.spawn(async move {
            let mut picks = Vec::new();
            for _ in 0..CALLS {
                let placed = client.place(request.clone()).await.expect("it is placed");
                let placed = placed.into_inner();
                assert_eq!(placed.unplaced, 0);
                for report in &placed.constraints {
                    let counts = report.domains.iter().map(|d| d.matching_pods);
                    let most = counts.clone().max().expect("there are domains");
                    let least = counts.min().expect("there are domains");
                    assert!(most - least <= 1, "{report:?}");
                }
                picks.extend(placed.placements);
            }
            picks
        });
    }
    let picks: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    let wanted = CLIENTS * CALLS * REPLICAS as usize;
    assert_eq!(picks.len(), wanted);
    let ids: HashSet<&str> = picks.iter().map(|pick| &*pick.reservation_id).collect();
    assert_eq!(ids.len(), wanted, "every pick is unique");
    assert_eq!(server.describe("").await.reservation_count, wanted as i64);

    // Exactly what was picked counts.
    let mut by_node: BTreeMap<String, i64> = BTreeMap::new();
    for pick in picks {
        *by_node.entry(pick.node).or_default() += 1;
    }
    let filter = FilterRequest {
        pod: request.pod,
        view: View::Domains.into(),
        max_domains: Some(0),
        ..FilterRequest::default()
    };
    let hosts = server.filter(filter).await.constraints.remove(1).domains;
    let counted = hosts.into_iter().map(|d| (d.value, d.matching_pods));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), by_node);
}

/// Without reservations, clients that ask first and act later all take the same node.
#[tokio::test]
async fn plain_questions_step_on_each_other() {
    let held = Held::start().await;
    let mut chosen = Vec::new();
    for _ in 0..CLIENTS {
        let request = ScoreRequest {
            pod: Some(template()),
            top: 1,
            ..ScoreRequest::default()
        };
        chosen.push(held.server.score(request).await.scores.remove(0).node);
    }
    for (i, node) in chosen.iter().enumerate() {
        let running = on(pod(&format!("web-{i}"), &WEB), node);
        held.server.update("", vec![running.change()]).await;
    }
    assert_eq!(
        held.counts().await,
        [CLIENTS as i64, 0],
        "not within a skew of 1"
    );

    // With reservations they spread.
    let held = Held::start().await;
    for _ in 0..CLIENTS {
        held.reserve(1).await;
    }
    assert_eq!(held.counts().await, [CLIENTS as i64 / 2; 2]);
}

/// Reservations count as pods in the state and are listed apart, so the number of pods tells whether
/// both are of one revision.
#[tokio::test(flavor = "multi_thread")]
async fn pods_and_reservations_are_of_one_revision() {
    let held = Held::start().await;
    let before = held.server.describe("").await;
    assert_eq!(before.reservation_count, 0);
    let request = PlaceRequest {
        reserve: Some(Reservation {
            owner: "crowd".into(),
            ttl: Some(Duration::from_secs(600).into()),
        }),
        ..place_of(template(), 1)
    };
    let mut client = held.server.another_client().await;
    let writer = tokio::spawn(async move {
        for _ in 0..300 {
            let placed = client.place(request.clone()).await.expect("it is placed");
            let ids = placed.into_inner().placements.into_iter();
            let release = ReleaseReservationsRequest {
                ids: ids.map(|pick| pick.reservation_id).collect(),
                ..ReleaseReservationsRequest::default()
            };
            let released = client.release_reservations(release).await;
            released.expect("it is live");
        }
    });
    let mut reserved = 0;
    while !writer.is_finished() {
        let told = held.server.describe("").await;
        assert_eq!(told.pod_count, before.pod_count, "{told:?}");
        reserved += told.reservation_count;
    }
    writer.await.expect("it does not panic");
    assert!(reserved > 0, "no reservation was seen");
}
