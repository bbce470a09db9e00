//! Answers to requests that may come again, and renewed reservations, survive a
//! kill.

use std::time::Duration;

use evenkeel::proto::v1::{PlaceRequest, RenewReservationsRequest};

use crate::restart::home::Home;
use support::build::{ZONE, hard, hold_of, pod, spread, zones};

const WEB: [(&str, &str); 1] = [("app", "web")];

#[tokio::test]
async fn a_retry_after_a_restart_reserves_nothing() {
    let home = Home::new();
    let mut server = home.start(&[]);
    server.update("", zones(&["a", "b"])).await;
    let template = spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)]);
    let request = PlaceRequest {
        request_id: "once".into(),
        ..hold_of(template, 3, Duration::from_secs(1_000))
    };
    let first = server.place(request.clone()).await;
    let renew = RenewReservationsRequest {
        snapshot: String::new(),
        ids: vec![first.placements[0].reservation_id.clone()],
        ttl: Some(Duration::from_secs(3_000).into()),
    };
    let renewed = server.renew_reservations(renew).await;
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
        assert_eq!(server.place(request.clone()).await, first);
        assert_eq!(server.held().await, held);
        assert_eq!(server.describe("default").await, described);
    }
}
