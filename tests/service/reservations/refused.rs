//! Requests over a limit or past their deadline, after which nothing is held. `bad_input/requests.yaml` has those that are
//! invalid.

use std::time::Duration;

use evenkeel::snapshot::Limits;
use tonic::Code;

use super::held::{Held, request};
use support::build::release_of;

#[tokio::test]
async fn unknown_ids_are_told() {
    let held = Held::start().await;
    let ids = ["nonsense", "x-1", "00000000-1"].map(String::from).to_vec();
    let request = release_of(ids.clone());
    let released = held.server.release_reservations(request).await;
    assert_eq!(released.unknown_ids, ids);
}

#[tokio::test]
async fn limits_are_kept() {
    let held = Held::with_limits(Limits {
        max_reservations: 3,
        max_replicas: 5,
        max_reservation_ttl: Duration::from_secs(3_600),
        ..Limits::default()
    })
    .await;
    held.reserve(2).await;
    for replicas in [2, 6] {
        let status = held.server.client().place(request(replicas)).await;
        let status = status.expect_err("it is over a limit");
        assert_eq!(status.code(), Code::ResourceExhausted);
        let limit = ["max-reservations", "max-replicas"][usize::from(replicas == 6)];
        assert!(status.message().contains(limit), "{}", status.message());
    }
    assert_eq!(held.list().await.len(), 2);
    assert_eq!(held.counts().await, [1, 1]);
    held.reserve(1).await;
}

#[tokio::test]
async fn past_its_deadline_it_holds_nothing() {
    let held = Held::start().await;
    let mut call = tonic::Request::new(request(50_000));
    call.set_timeout(Duration::from_millis(1));
    let status = held.server.client().place(call).await;
    let code = status.expect_err("it takes longer").code();
    assert!(
        matches!(code, Code::DeadlineExceeded | Code::Cancelled),
        "{code:?}"
    );
    assert!(held.list().await.is_empty());
    assert_eq!(held.counts().await, [0, 0]);
}
