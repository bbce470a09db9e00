//! The calls that each role may make.

use std::pin::Pin;

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{self, FILE_DESCRIPTOR_SET, StreamSnapshotRequest};
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::security::client::{Client, batch, client, healthy, serve};
use crate::security::identity::{Role, access_file};
use crate::security::pki::Files;

type Answer = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// A call about snapshot `s`.
type Call = fn(Client) -> Answer;

/// Makes a unary call with a request whose snapshot is `s`.
macro_rules! unary {
    ($method:ident, $request:ident $(, $field:ident: $value:expr)*) => {
        |mut client| Box::pin(async move {
            #[allow(clippy::needless_update, reason = "some have no other field")]
            let request = v1::$request {
                snapshot: "s".into(),
                $($field: $value,)*
                ..Default::default()
            };
            client.$method(request).await.map(drop)
        })
    };
}

/// Every RPC, with the role that it needs; `None` if every known caller may make it.
const RPCS: &[(&str, Option<Role>, Call)] = &[
    ("Filter", Some(Role::Reader), unary!(filter, FilterRequest)),
    ("Score", Some(Role::Reader), unary!(score, ScoreRequest)),
    ("Place", Some(Role::Reader), unary!(place, PlaceRequest)),
    (
        "Explain",
        Some(Role::Reader),
        unary!(explain, ExplainRequest),
    ),
    (
        "DescribeSpread",
        Some(Role::Reader),
        unary!(describe_spread, DescribeSpreadRequest),
    ),
    (
        "RankRemovals",
        Some(Role::Reader),
        unary!(rank_removals, RankRemovalsRequest),
    ),
    (
        "Rebalance",
        Some(Role::Reader),
        unary!(rebalance, RebalanceRequest),
    ),
    (
        "PlanNodes",
        Some(Role::Reader),
        unary!(plan_nodes, PlanNodesRequest),
    ),
    (
        "Place",
        Some(Role::Feeder),
        unary!(place, PlaceRequest, reserve: Some(v1::Reservation::default())),
    ),
    (
        "GetSnapshot",
        Some(Role::Reader),
        unary!(get_snapshot, GetSnapshotRequest),
    ),
    (
        "ListNodes",
        Some(Role::Reader),
        unary!(list_nodes, ListNodesRequest),
    ),
    (
        "ListReservations",
        Some(Role::Reader),
        unary!(list_reservations, ListReservationsRequest),
    ),
    ("ListSnapshots", None, |mut client| {
        Box::pin(async move {
            let listed = client.list_snapshots(v1::ListSnapshotsRequest::default());
            listed.await.map(drop)
        })
    }),
    (
        "UpdateSnapshot",
        Some(Role::Feeder),
        unary!(update_snapshot, UpdateSnapshotRequest),
    ),
    ("StreamSnapshot", Some(Role::Feeder), |mut client| {
        Box::pin(async move {
            let step = StreamSnapshotRequest {
                step: Some(Step::Update(batch("s"))),
            };
            let feed = client.stream_snapshot(tokio_stream::iter([step])).await?;
            feed.into_inner().message().await.map(drop)
        })
    }),
    (
        "ConfirmReservations",
        Some(Role::Feeder),
        unary!(confirm_reservations, ConfirmReservationsRequest),
    ),
    (
        "ReservePods",
        Some(Role::Feeder),
        unary!(reserve_pods, ReservePodsRequest),
    ),
    (
        "RenewReservations",
        Some(Role::Feeder),
        unary!(renew_reservations, RenewReservationsRequest),
    ),
    (
        "ReleaseReservations",
        Some(Role::Feeder),
        unary!(release_reservations, ReleaseReservationsRequest),
    ),
    ("ExportSnapshot", Some(Role::Feeder), |mut client| {
        Box::pin(async move {
            let request = v1::ExportSnapshotRequest {
                snapshot: "s".into(),
            };
            let parts = client.export_snapshot(request).await?;
            parts.into_inner().message().await.map(drop)
        })
    }),
    (
        "VerifySnapshot",
        Some(Role::Admin),
        unary!(verify_snapshot, VerifySnapshotRequest),
    ),
    ("Decide", Some(Role::Reader), |mut client| {
        Box::pin(async move {
            let filter = v1::FilterRequest {
                snapshot: "s".into(),
                ..Default::default()
            };
            let question = v1::Question {
                ask: Some(v1::question::Ask::Filter(filter)),
                ..Default::default()
            };
            let step = v1::DecideRequest {
                step: Some(v1::decide_request::Step::Question(question)),
            };
            let answers = client.decide(tokio_stream::iter([step])).await?;
            let answer = answers.into_inner().message().await?;
            match answer.expect("one answer").answer {
                Some(v1::decide_response::Answer::Error(error)) => {
                    Err(Status::new(Code::from_i32(error.code), error.message))
                }
                _ => Ok(()),
            }
        })
    }),
    // This is last, because it deletes the snapshot.
    (
        "DeleteSnapshot",
        Some(Role::Admin),
        unary!(delete_snapshot, DeleteSnapshotRequest),
    ),
];

#[test]
fn every_rpc_is_in_the_table() {
    let all = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("it is one");
    let services = all.file.iter().flat_map(|file| &file.service);
    let methods = services.flat_map(|service| &service.method);
    for method in methods {
        let is_known = RPCS.iter().any(|(name, _, _)| *name == method.name());
        assert!(is_known, "{} needs a line in RPCS", method.name());
    }
}

/// Checks that a refusal names the role and the snapshot.
#[track_caller]
fn assert_denied(status: &Status, role: Role, snapshot: Option<&str>, what: &str) {
    assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status}");
    assert!(status.message().contains(role.name()), "{what}: {status}");
    let is_named = status.message().contains("\"s\"");
    assert_eq!(is_named, snapshot.is_some(), "{what}: {status}");
    let info = status
        .get_details_error_info()
        .expect("all errors have one");
    assert_eq!(info.reason, "PERMISSION_DENIED", "{what}");
    let metadata = |key: &str| info.metadata.get(key).map(String::as_str);
    assert_eq!(metadata("role"), Some(role.name()), "{what}");
    assert_eq!(metadata("snapshot"), snapshot, "{what}");
}

#[tokio::test]
async fn every_role_may_call_what_it_should_and_nothing_else() {
    let files = Files::new();
    let roles = [Role::Reader, Role::Feeder, Role::Admin];
    let rules = roles.map(|role| (role.name(), role, &["s"][..]));
    let server = serve(&["--access-file".into(), access_file(&files, &rules)]);
    let as_role = |role: Role| client(server.channel(), Some(&format!("Bearer {}", role.name())));

    for (method, needed, call) in RPCS {
        for stranger in [
            None,
            Some("Bearer unknown"),
            Some("Basic reader"),
            Some("Bearer"),
        ] {
            let refused = call(client(server.channel(), stranger)).await;
            let status = refused.expect_err("no rule is about it");
            assert_eq!(status.code(), Code::Unauthenticated, "{method}: {status}");
            let info = status
                .get_details_error_info()
                .expect("all errors have one");
            assert_eq!(info.reason, "UNAUTHENTICATED", "{method}");
        }
        for role in roles {
            let what = format!("{method} as {}", role.name());
            // The snapshot exists, even if the call before has deleted it.
            let made = as_role(Role::Feeder).update_snapshot(batch("s")).await;
            made.expect("a feeder may make it");
            let answer = call(as_role(role)).await;
            match needed {
                Some(needed) if role < *needed => {
                    let status = answer.expect_err(&what);
                    // A feed is refused before it has named a snapshot.
                    let snapshot = (*method != "StreamSnapshot").then_some("s");
                    assert_denied(&status, *needed, snapshot, &what);
                }
                // The call may be invalid, because its request is nearly empty.
                _ => {
                    let code = answer.err().map_or(Code::Ok, |status| status.code());
                    let is_let_in = matches!(code, Code::Ok | Code::InvalidArgument);
                    assert!(is_let_in, "{what}: {code:?}");
                }
            }
        }
    }
    healthy(server.channel()).await.expect("health is open");
    let mut reflection =
        tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(
            server.channel(),
        );
    let reflected = reflection
        .server_reflection_info(tokio_stream::empty())
        .await;
    reflected.expect("reflection is open");
}
