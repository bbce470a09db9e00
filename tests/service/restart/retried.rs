//! Answers to requests that may come again, and renewed reservations, survive a
//! kill.

use std::time::Duration;

use evenkeel::proto::v1::{PlaceRequest, RenewReservationsRequest};

use crate::restart::home::{Home, reserve};
use support::build::{ZONE, hard, node, pod, spread};
use support::model::Stored;

const WEB: [(&str, &str); 1] = [("app", "web")];

#[tokio::test]
async fn a_retry_after_a_restart_reserves_nothing() {
    let home = Home::new();
    let mut server = home.start(&[]);
    let nodes = ["a", "b"].map(|name| node(name, &[(ZONE, name)]).change());
    server.update("", nodes.to_vec()).await;
    let template = spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)]);
    let request = PlaceRequest {
        request_id: "once".into(),
        ..reserve(template, 3, Duration::from_secs(1_000))
    };
    let first = server.client.place(request.clone()).await;
    let first = first.expect("it is placed").into_inner();
    let renew = RenewReservationsRequest {
        snapshot: String::new(),
        ids: vec![first.placements[0].reservation_id.clone()],
        ttl: Some(Duration::from_secs(3_000).into()),
    };
    let renewed = server.client.renew_reservations(renew).await;
    let renewed = renewed.expect("it is live").into_inner();
    assert_ne!(renewed.reserved_until, first.reserved_until);
    let (held, described) = (server.held().await, server.describe("default").await);
    let ends = held[&first.placements[0].reservation_id].reserved_until;
    assert_eq!(ends, renewed.reserved_until);

    // The server is killed first, and then stopped with TERM.
    for stops in [false, true] {
        match stops {
            true => server.stop().await,
            false => server.kill().await,
        }
        server = home.start(&[]);
        let again = server.client.place(request.clone()).await;
        assert_eq!(again.expect("it is repeated").into_inner(), first);
        assert_eq!(server.held().await, held);
        assert_eq!(server.describe("default").await, described);
    }
}
