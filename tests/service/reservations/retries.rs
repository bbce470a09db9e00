//! A call that reserves can be sent again when its answer was lost.

use evenkeel::proto::v1::{Dialect, NodeNames, PlaceRequest, PlaceResponse, View};
use evenkeel::snapshot::Limits;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use support::refusal::fields;

use super::held::{Held, TTL_SECONDS, request};

/// A request to place and hold, under an id.
fn under(request_id: &str, replicas: i32) -> PlaceRequest {
    PlaceRequest {
        request_id: request_id.into(),
        ..request(replicas)
    }
}

async fn place(held: &Held, request: PlaceRequest) -> Result<PlaceResponse, Status> {
    let placed = held.server.client().place(request).await;
    placed.map(tonic::Response::into_inner)
}

/// The second in which something ends.
fn end(at: Option<pbjson_types::Timestamp>) -> Option<i64> {
    at.map(|at| at.seconds)
}

#[tokio::test]
async fn the_same_id_has_the_same_answer_in_both_dialects() {
    for dialect in [Dialect::Kubernetes, Dialect::Fleet] {
        for view in [View::Full, View::Basic, View::Domains] {
            let held = Held::start().await;
            let asked = PlaceRequest {
                dialect: dialect.into(),
                view: view.into(),
                ..under("once", 2)
            };
            let first = place(&held, asked.clone()).await.expect("it is placed");
            let counts = held.counts().await;
            assert_eq!(held.list().await.len(), 2);
            // Neither the present state of the snapshot nor the end of the reservations changes the
            // answer.
            for held_now in held.list().await {
                held.release(&held_now.id).await;
            }
            let later = PlaceRequest {
                min_revision: first.revision,
                epoch: first.epoch.clone(),
                ..asked.clone()
            };
            assert_eq!(place(&held, later).await.expect("it is repeated"), first);
            assert!(held.list().await.is_empty(), "{dialect:?}, {view:?}");

            held.pass(TTL_SECONDS);
            let anew = place(&held, asked).await.expect("it is placed");
            assert_ne!(anew.revision, first.revision);
            assert_eq!(held.counts().await, counts);
        }
    }
}

/// An answer ends when its time is over, not when it is cleaned up.
#[tokio::test]
async fn an_answer_is_kept_for_its_time_alone() {
    let held = Held::start().await;
    let asked = under("once", 1);
    let first = place(&held, asked.clone()).await.expect("it is placed");
    held.pass_unnoticed(TTL_SECONDS - 1);
    let again = place(&held, asked.clone()).await;
    assert_eq!(again.expect("it is repeated"), first);
    held.pass_unnoticed(1);
    let anew = place(&held, asked).await.expect("it is placed");
    assert_ne!(
        anew.placements[0].reservation_id,
        first.placements[0].reservation_id
    );
}

#[tokio::test]
async fn an_answer_without_picks_is_repeated_too() {
    let held = Held::start().await;
    let nowhere = PlaceRequest {
        candidates: Some(NodeNames::default()),
        ..under("none", 1)
    };
    let first = place(&held, nowhere.clone()).await.expect("it is answered");
    assert_eq!((first.unplaced, held.list().await.len()), (1, 0));
    assert_eq!(place(&held, nowhere).await.expect("it is repeated"), first);
    held.pass(TTL_SECONDS);
    let summary = held.server.describe("").await;
    assert_eq!(summary.revision, first.revision, "it changed nothing");
}

#[tokio::test]
async fn an_id_belongs_to_one_request() {
    let held = Held::start().await;
    place(&held, under("mine", 1)).await.expect("it is placed");
    let other_owner = {
        let mut other = under("mine", 1);
        other.reserve.as_mut().expect("it reserves").owner = "another".into();
        other
    };
    let other_pod = {
        let mut other = under("mine", 1);
        let metadata = other.pod.as_mut().and_then(|pod| pod.metadata.as_mut());
        metadata.expect("it has").name = "another".into();
        other
    };
    let plan = PlaceRequest {
        reserve: None,
        ..under("mine", 1)
    };
    for other in [under("mine", 2), other_owner, other_pod, plan] {
        let refused = place(&held, other).await.expect_err("it is another");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert_eq!(fields(&refused), ["requestId"]);
    }
    assert_eq!(held.list().await.len(), 1);
    place(&held, under("other", 1)).await.expect("it is placed");
    assert_eq!(held.list().await.len(), 2);
}

/// However many copies of a request are under way at once, one reserves.
#[tokio::test(flavor = "multi_thread")]
async fn copies_at_once_reserve_once() {
    let held = Held::start().await;
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let mut client = held.server.another_client();
        calls.spawn(async move { client.place(under("copies", 3)).await });
    }
    let answers = calls.join_all().await.into_iter();
    let answers: Vec<_> = answers
        .map(|answer| answer.expect("it is answered").into_inner())
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(held.list().await.len(), 3);
}

/// Answers take memory, so there are at most as many as reservations, and they are forgotten.
#[tokio::test]
async fn answers_are_limited_and_forgotten() {
    let held = Held::with_limits(Limits {
        max_reservations: 3,
        ..Limits::default()
    })
    .await;
    for id in ["1", "2", "3"] {
        let placed = place(&held, under(id, 1)).await.expect("it is placed");
        assert!(held.release(&placed.placements[0].reservation_id).await);
    }
    let refused = place(&held, under("4", 1)).await.expect_err("too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("max-reservations"), "{refused}");
    place(&held, under("1", 1)).await.expect("it is repeated");
    assert!(held.list().await.is_empty());

    held.pass(TTL_SECONDS);
    place(&held, under("4", 1)).await.expect("there is room");
}

#[tokio::test]
async fn a_renewed_reservation_never_ends_early() {
    let held = Held::start().await;
    let ids: Vec<String> = held
        .reserve(2)
        .await
        .placements
        .into_iter()
        .map(|pick| pick.reservation_id)
        .collect();
    let renew = async |ids: &[&str], seconds| {
        let ids = ids.iter().map(|id| (*id).to_owned());
        held.renew(ids.collect(), seconds).await
    };
    let revision = held.server.describe("").await.revision;
    held.pass(TTL_SECONDS - 10);
    // A reservation that would end later stays as it is.
    let shorter = renew(&[&ids[0]], Some(5)).await;
    assert_eq!(end(shorter.reserved_until), Some(1_000_060));
    let longer = renew(&["gone", &ids[0]], None).await;
    assert_eq!(longer.unknown_ids, ["gone"]);
    assert_eq!(end(longer.reserved_until), Some(1_000_110));
    assert_eq!(longer.revision, revision, "it counts as before");

    held.pass(10);
    let left: Vec<String> = held.list().await.into_iter().map(|held| held.id).collect();
    assert_eq!(left, ids[..1]);
    held.pass(49);
    assert_eq!(held.list().await.len(), 1);
    held.pass(1);
    assert!(held.list().await.is_empty());
    let nothing = renew(&[&ids[0]], None).await;
    assert_eq!(nothing.unknown_ids, ids[..1]);
    assert_eq!(nothing.reserved_until, None);
}

/// The answer tells the first end of all. Without a TTL in the request, each reservation is held
/// for as long again as its last TTL.
#[tokio::test]
async fn renewed_reservations_end_one_by_one() {
    let held = Held::start().await;
    let picks = held.reserve(2).await.placements.into_iter();
    let ids: Vec<String> = picks.map(|pick| pick.reservation_id).collect();
    let renew = async |ids: &[String], seconds| {
        let renewed = held.renew(ids.to_vec(), seconds).await;
        end(renewed.reserved_until)
    };
    assert_eq!(renew(&ids[..1], Some(300)).await, Some(1_000_300));
    let backward: Vec<String> = ids.iter().rev().cloned().collect();
    for (ids, first) in [(&ids, 1_000_060), (&backward, 1_000_060)] {
        assert_eq!(renew(ids, Some(1)).await, Some(first), "{ids:?}");
    }
    held.pass(10);
    assert_eq!(renew(&ids[1..], None).await, Some(1_000_070));
    assert_eq!(renew(&ids[..1], None).await, Some(1_000_310));
}
