//! A reservation counts until it ends.

use evenkeel::proto::v1::{ListReservationsRequest, PlaceRequest};

use super::held::{Held, TTL_SECONDS, WEB};
use support::build::{ZONE, filter_of, on, pod, pod_term, with_affinity, zones};
use support::model::Stored;

#[tokio::test]
async fn what_is_held_counts_and_is_shown() {
    let held = Held::start().await;
    let placed = held.reserve(3).await;
    assert_eq!(placed.placements.len(), 3);
    assert_eq!(held.counts().await, [2, 1]);
    let snapshot = held.server.describe("").await;
    assert_eq!(snapshot.reservation_count, 3);
    assert_eq!(snapshot.pod_count, 0, "a reservation is no pod");
    assert_eq!(snapshot.revision, placed.revision);
    let until = placed.reserved_until.expect("it ends").seconds;
    assert_eq!(until, 1_000_000 + TTL_SECONDS as i64);
    let list = held.list().await;
    for (held, pick) in list.iter().zip(&placed.placements) {
        assert_eq!((&held.id, &held.node), (&pick.reservation_id, &pick.node));
        assert_eq!((&*held.owner, &*held.namespace), ("deployer", "default"));
        assert_eq!(held.labels["app"], "web");
    }
}

/// A pick that is held keeps away what its pod would keep away.
#[tokio::test]
async fn what_is_held_keeps_its_anti_affinity() {
    let held = Held::start().await;
    let web = || pod("", &WEB);
    let apart = with_affinity(web(), &[], &[pod_term(ZONE, &WEB)]);
    let request = PlaceRequest {
        pod: Some(apart),
        ..super::held::request(3)
    };
    let placed = held.server.place(request).await;
    assert_eq!((placed.placements.len(), placed.unplaced), (2, 1));
    let ask = async || held.server.filter(filter_of(web())).await.feasible;
    assert!(ask().await.is_empty());
    let first = &placed.placements[0];
    assert!(held.release(&first.reservation_id).await);
    assert_eq!(ask().await, std::slice::from_ref(&first.node));
}

#[tokio::test]
async fn planning_holds_nothing() {
    let held = Held::start().await;
    let plan = PlaceRequest {
        reserve: None,
        ..super::held::request(5)
    };
    let planned = held.server.place(plan).await;
    assert_eq!(planned.placements.len(), 5);
    assert!(
        planned
            .placements
            .iter()
            .all(|p| p.reservation_id.is_empty())
    );
    assert_eq!(held.counts().await, [0, 0]);
    assert!(held.list().await.is_empty());
}

#[tokio::test]
async fn release_and_expiry_end_it() {
    let held = Held::start().await;
    let placed = held.reserve(4).await;
    let first = &placed.placements[0].reservation_id;
    assert!(held.release(first).await);
    assert!(!held.release(first).await, "it has ended");
    assert_eq!(held.counts().await, [1, 2]);
    held.pass(TTL_SECONDS - 1);
    assert_eq!(held.counts().await, [1, 2]);
    held.pass(1);
    assert_eq!(held.counts().await, [0, 0]);
    assert_eq!(held.server.describe("").await.reservation_count, 0);
    assert!(
        !held
            .confirm(&placed.placements[1].reservation_id, "web-1", "")
            .await
    );
}

#[tokio::test]
async fn what_is_over_at_once_ends_at_once() {
    let held = Held::start().await;
    let placed = held.reserve(2).await;
    held.pass(TTL_SECONDS);
    let revision = held.server.describe("").await.revision;
    assert_eq!(
        revision,
        placed.revision + 1,
        "the end of both is one batch"
    );
}

#[tokio::test]
async fn it_survives_a_replace_and_stays_out_of_exports() {
    let held = Held::start().await;
    let placed = held.reserve(3).await;
    let [first, second] = [0, 1].map(|i| placed.placements[i].reservation_id.clone());
    assert!(held.confirm(&first, "web-0", "u0").await);
    assert!(held.confirm(&second, "", "u1").await);
    let exported = held.server.export("").await;
    let changes = exported
        .into_iter()
        .flat_map(|part| part.update)
        .flat_map(|u| u.changes);
    assert_eq!(changes.count(), 2, "the nodes");

    // One of the pods arrives with the replace.
    let mut web = on(pod("web-0", &WEB), "a");
    web.metadata.as_mut().expect("it has").uid = "u0".into();
    let mut state = zones(&["a", "b"]);
    state.push(web.change());
    held.server.replace("", state, Default::default()).await;
    assert_eq!(held.server.describe("").await.reservation_count, 2);
    assert_eq!(held.counts().await, [2, 1]);
}

#[tokio::test]
async fn lists_come_in_pages() {
    let held = Held::start().await;
    let placed = held.reserve(7).await;
    let mut ids = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListReservationsRequest {
            page_size: 3,
            page_token,
            owner: "deployer".into(),
            ..Default::default()
        };
        let page = held.server.list_reservations(request).await;
        ids.extend(page.reservations.into_iter().map(|held| held.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let picks = placed.placements.into_iter();
    assert_eq!(
        ids,
        picks.map(|pick| pick.reservation_id).collect::<Vec<_>>()
    );
    let request = ListReservationsRequest {
        owner: "nobody".into(),
        ..Default::default()
    };
    assert!(
        held.server
            .list_reservations(request)
            .await
            .reservations
            .is_empty()
    );
}
